"""Tells systemd how the service is, over the datagram socket of sd_notify(3), without libsystemd."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping


class Notifier:
    """Sends state to the service manager; does nothing where there is none. Never blocks and never raises.

    address: path, or an abstract name that begins with ``@``; None for no service manager.
    watchdog_s: it expects a sign of life at least this often; None for no watchdog.
    """

    def __init__(self, address: str | None, watchdog_s: float | None = None) -> None:
        self.watchdog_s = watchdog_s
        self._status = ""
        self._socket: socket.socket | None = None
        self._address = address or ""
        if self._address.startswith(("/", "@")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    @staticmethod
    def from_environment(environment: MutableMapping[str, str]) -> Notifier:
        """As the service manager asks for it. Its variables are removed, so that no child speaks in our name."""
        address = environment.pop("NOTIFY_SOCKET", None)
        period, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        ours = not pid or pid == str(os.getpid())
        return Notifier(address, int(period) / 1e6 if ours and period.isdigit() and int(period) > 0 else None)

    def ready(self) -> None:
        """Started, or reloaded."""
        self._send("READY=1")

    def reloading(self) -> None:
        """A reload begins; `ready` ends it. The time is required by Type=notify-reload and ignored by others."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """The end begins."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """One sign of life for the watchdog."""
        self._send("WATCHDOG=1")

    def extend(self, seconds: float) -> None:
        """Starting or stopping takes at least this much longer from now."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def status(self, text: str) -> None:
        """One line for people; sent when it changed."""
        if text != self._status:
            self._status = text
            self._send("STATUS=" + text.replace("\n", " "))

    def close(self) -> None:
        """Let go."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: str) -> None:
        if self._socket is None:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            self._socket.sendto(message.encode("utf-8", "replace"), address)
        except OSError:         # the manager is being restarted, or its queue is full: the next message counts
            return
