"""Signals as something that a selector can wait for."""

from __future__ import annotations

import contextlib
import signal
import socket
from types import FrameType

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class SignalQueue:
    """From construction to `close`, the handled signals do nothing but wait here. Only for the main thread."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        self._before_fd = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _noted) for number in HANDLED}

    def fileno(self) -> int:
        """For a selector."""
        return self._read.fileno()

    def take(self) -> list[int]:
        """Numbers of the signals that came, in order."""
        with contextlib.suppress(BlockingIOError):
            return list(self._read.recv(4096))
        return []

    def close(self) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._before_fd)
        self._read.close()
        self._write.close()


def _noted(number: int, frame: FrameType | None) -> None:
    """The interpreter writes the number to the wake-up descriptor; a handler is needed for that."""
