"""Whether there is a disk to write to: the floor, and failures that are waited out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edge.recordings.clock import Clock
from edge.recordings.root import Root
from edge.reports import Level

CHECK_INTERVAL_S, RETRY_S = 1.0, 3.0
FALL_DECAY = 0.8        # by each look: a fall is as good as forgotten after ten seconds
FULL, FAILED, SLOW = "disk full", "disk failed", "disk slow"


class DiskWatch:
    """Looks at the disk once a second and remembers why recording pauses. Used by one thread; `paused` by any.

    say: gets level, key and text of an event whenever that changes.
    """

    def __init__(self, root: Root, clock: Clock, say: Callable[[Level, str, str], None]) -> None:
        self._root, self._clock, self._say = root, clock, say
        self._checked_s = self._retry_s = float("-inf")
        self._free_bytes: int | None = None
        self._fall_bytes = 0.0
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
        self._note_fall(space.free_bytes)
        space = replace(space, fall_bytes=int(self._fall_bytes))
        self.is_full = space.free_bytes < (space.resume_bytes if self.is_full else space.pause_bytes)
        if self.is_full:
            self.pause(FULL, f"{space.free_bytes >> 20} MiB are free, {space.floor_bytes >> 20} MiB must stay free")

    def _note_fall(self, free_bytes: int) -> None:
        """The most that disappeared between two looks, of late: fragments of all cameras come in bursts."""
        before_bytes, self._free_bytes = self._free_bytes, free_bytes
        fall_bytes = 0 if before_bytes is None else before_bytes - free_bytes
        self._fall_bytes = max(fall_bytes, self._fall_bytes * FALL_DECAY)

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
