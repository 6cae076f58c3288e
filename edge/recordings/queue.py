"""What waits to be written: a short, bounded queue, so that the camera's frames never wait for the disk."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from edge.anonymize.gate import SafeFrame

MIN_FRAMES, MAX_FRAMES, MAX_BYTES = 4, 30, 64 << 20


@dataclass(frozen=True, slots=True)
class FrameItem:
    """A safe frame on its way to the writer, and what its sidecar counts."""

    safe: SafeFrame
    faces: int
    tracks: frozenset[int]


@dataclass(frozen=True, slots=True)
class GapItem:
    """No frames from here on."""

    reason: str


@dataclass(frozen=True, slots=True)
class EndItem:
    """Complete the open segment; the last one where `last`."""

    last: bool = False


Item = FrameItem | GapItem | EndItem


class FrameQueue:
    """From one thread to another. Frames are bounded by number and bytes; the rest is rare."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._frames = 0

    def has_room(self, frame_bytes: int) -> bool:
        """Whether one more frame of this size may be put."""
        return self._frames < max(MIN_FRAMES, min(MAX_FRAMES, MAX_BYTES // max(1, frame_bytes)))

    def put(self, item: Item) -> None:
        """Append."""
        with self._changed:
            self._items.append(item)
            self._frames += isinstance(item, FrameItem)
            self._changed.notify()

    def get(self, timeout_s: float) -> Item | None:
        """The next, or None when none comes within this time."""
        with self._changed:
            if not self._items:
                self._changed.wait(timeout_s)
            if not self._items:
                return None
            item = self._items.popleft()
            self._frames -= isinstance(item, FrameItem)
            return item

    def clear(self) -> None:
        """Give back the memory of all frames that wait."""
        while (item := self.get(0)) is not None:
            if isinstance(item, FrameItem):
                item.safe.take().release()
