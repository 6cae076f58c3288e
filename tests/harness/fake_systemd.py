"""The part of systemd that a Type=notify service talks to: a notification socket and a watchdog."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any


class FakeSystemd:
    """Starts a service and reads what it says. Use as a context manager; at its end the service is killed.

    watchdog_s: WatchdogSec= of the unit, None for none. abstract: a socket without a file.
    messages: (monotonic time, text) of all datagrams.
    """

    def __init__(self, watchdog_s: float | None = None, abstract: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="edge-systemd-")
        self.watchdog_s = watchdog_s
        self.log = Path(self._folder.name) / "log"
        path = str(Path(self._folder.name) / "notify")
        self.address = "@" + path if abstract else path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + path if abstract else path)
        self.messages: list[tuple[float, str]] = []
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> FakeSystemd:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        if kind is not None:
            print(self.log.read_text(errors="replace")[-6000:], file=sys.stderr)
        self._socket.close()
        self._folder.cleanup()

    def start(self, command: Sequence[str], **environment: str) -> subprocess.Popen[bytes]:
        """Start the service; its output goes to `log`."""
        values = os.environ | {"NOTIFY_SOCKET": self.address} | environment
        if self.watchdog_s is not None:
            values["WATCHDOG_USEC"] = str(int(self.watchdog_s * 1e6))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=values)
        return self.process

    def receive(self, seconds: float) -> str | None:
        """The next message, or None when none comes in time."""
        self._socket.settimeout(max(seconds, 0.001))
        try:
            text = self._socket.recv(4096).decode()
        except TimeoutError:
            return None
        self.messages.append((time.monotonic(), text))
        return text

    def wait_for(self, text: str, seconds: float) -> bool:
        """Read until a message holds `text`; False when none does in time."""
        deadline_s = time.monotonic() + seconds
        while (left_s := deadline_s - time.monotonic()) > 0:
            message = self.receive(left_s)
            if message is not None and text in message:
                return True
        return False

    def misses_a_ping(self, seconds: float) -> bool:
        """Watch for so long; whether a whole watchdog time passes without a sign of life. The service is then ended
        with SIGABRT, as systemd does it."""
        assert self.watchdog_s is not None and self.process is not None
        end_s = time.monotonic() + seconds
        heard_s = time.monotonic()
        while time.monotonic() < end_s:
            if self.wait_for("WATCHDOG=1", heard_s + self.watchdog_s - time.monotonic()):
                heard_s = time.monotonic()
            elif time.monotonic() >= heard_s + self.watchdog_s:
                self.process.send_signal(signal.SIGABRT)
                self.process.send_signal(signal.SIGCONT)
                return True
        return False

    def said(self, text: str) -> list[Any]:
        """Times at which a message with this text came."""
        return [at_s for at_s, message in self.messages if text in message]
