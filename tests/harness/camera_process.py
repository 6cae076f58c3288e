"""Runs one camera process as the supervisor does."""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge.camera import CameraProcessSettings
from edge.cameras import CameraSettings
from edge.channel import ChannelClosedError, ParentEnd, Stop
from edge.reports import CameraReport, Event, Fatal

WAIT_S = 30.0


class CameraProcess:
    """The process, and all that it said. reports: the newest last, a thousand of them."""

    def __init__(self, camera: CameraSettings, inference_socket: Path) -> None:
        self.events: list[Event] = []
        self.reports: list[CameraReport] = []
        self.fatal: Fatal | None = None
        self.longest_silence_s = 0.0
        self._heard_s = time.monotonic()
        self._settings = CameraProcessSettings(camera, inference_socket)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> CameraProcess:
        self._channel, end = ParentEnd.pair()
        with end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "edge.camera", str(end.fileno())], pass_fds=[end.fileno()],
                stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        self._channel.send(self._settings)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._channel.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def report(self) -> CameraReport:
        """The newest."""
        return self.reports[-1] if self.reports else CameraReport("")

    @property
    def texts(self) -> list[str]:
        """Of all events."""
        return [event.text for event in self.events]

    def listen(self, timeout_s: float = 0.1) -> bool:
        """Take in what it says; False when it has ended."""
        select.select([self._channel], [], [], timeout_s)
        try:
            for said in self._channel.receive():
                if isinstance(said, CameraReport):
                    now_s = time.monotonic()
                    if self.reports:
                        self.longest_silence_s = max(self.longest_silence_s, now_s - self._heard_s)
                    self._heard_s = now_s
                    self.reports = [*self.reports[-999:], said]
                elif isinstance(said, Event):
                    self.events.append(said)
                elif isinstance(said, Fatal):
                    self.fatal = said
        except ChannelClosedError:
            return False
        return True

    def until(self, condition: Callable[[CameraReport], Any], limit_s: float = WAIT_S) -> CameraReport:
        """Take in what it says until `condition` holds for the newest report."""
        end_s = time.monotonic() + limit_s
        while not condition(self.report):
            alive = self.listen()
            assert alive, f"it ended: {self.fatal}, {self.events[-5:]}"
            assert time.monotonic() < end_s, f"{self.report} {self.events[-5:]}"
        return self.report

    def during(self, seconds: float) -> CameraReport:
        """Take in what it says for so long."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            assert self.listen(), f"it ended: {self.fatal}, {self.events[-5:]}"
        return self.report

    def stop(self, limit_s: float = 15.0) -> float:
        """Ask it to end and wait; how long that took. Its exit code must be 0."""
        began_s = time.monotonic()
        with contextlib.suppress(ChannelClosedError):
            self._channel.send(Stop())
        while self.listen():
            assert time.monotonic() - began_s < limit_s, f"it does not stop: {self.report}"
        assert self._process.wait(limit_s) == 0, self.fatal
        return time.monotonic() - began_s

    def usage(self) -> dict[str, int]:
        """Threads, open descriptors and KiB of resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in status)
        return {"threads": int(fields["Threads"]), "files": len(list(Path(f"/proc/{self.pid}/fd").iterdir())),
                "rss_kib": int(fields["VmRSS"].split()[0])}  # fmt: skip
