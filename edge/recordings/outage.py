"""Whether there is a disk to write to: the floor, and failures that are waited out."""

from __future__ import annotations

from collections.abc import Callable

from edge.recordings.clock import Clock
from edge.recordings.root import Root
from edge.reports import Level

CHECK_INTERVAL_S, RETRY_S = 1.0, 3.0
FULL, FAILED, SLOW = "disk full", "disk failed", "disk slow"


class DiskWatch:
    """Looks at the disk once a second and remembers why recording pauses. Used by one thread; `paused` by any.

    say: gets level, key and text of an event whenever that changes.
    """

    def __init__(self, root: Root, clock: Clock, say: Callable[[Level, str, str], None]) -> None:
        self._root, self._clock, self._say = root, clock, say
        self._checked_s = self._retry_s = float("-inf")
        self.is_full = False
        self.paused = ""

    def is_due(self) -> bool:
        """Whether it is time for `check`; once, then not again for a second."""
        now_s = self._clock.monotonic_s()
        if now_s - self._checked_s < CHECK_INTERVAL_S:
            return False
        self._checked_s = now_s
        return True

    def check(self) -> None:
        """Is the root there, is there room. Raises StorageError."""
        self._root.check()
        space = self._root.space()
        self.is_full = space.free_bytes < (space.resume_bytes if self.is_full else space.pause_bytes)
        if self.is_full:
            self.pause(FULL, f"{space.free_bytes >> 20} MiB are free, {space.floor_bytes >> 20} MiB must stay free")

    def may_open(self) -> bool:
        """Whether to try and open a segment now."""
        return not self.is_full and self._clock.monotonic_s() >= self._retry_s

    def failed(self, error: OSError) -> None:
        """Try again in a few seconds."""
        self._retry_s = self._clock.monotonic_s() + RETRY_S
        self.pause(FAILED, str(error))

    def pause(self, reason: str, text: str) -> None:
        """Recording pauses."""
        if self.paused != reason:
            self._say("error", f"recording-paused-{reason.replace(' ', '-')}", f"recording pauses, {reason}: {text}")
        self.paused = reason

    def resume(self) -> None:
        """A frame was written."""
        if self.paused:
            self._say("info", "recording-resumed", f"recording goes on after: {self.paused}")
            self.paused = ""
