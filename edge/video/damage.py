"""Which pictures are damaged: everything from a break in the coded stream to the next key frame."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

# Pictures that are shown before a break but coded after it may refer to what is broken; 16 is H.264's largest
# reorder depth (MaxDpbFrames, ITU-T H.264 A.3.1).
REORDER_FRAMES = 16
MAX_KEY_FRAMES = 1024


@dataclass(frozen=True, slots=True)
class _Break:
    start_ns: int
    end_ns: int


class DamageTracker:
    """Joins what the coded stream says (key frames, gaps) with what the decoder says (corrupt output, warnings).

    `on_encoded` is called by the decoder's thread, the rest by the reader. All times are buffer PTS in nanoseconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: deque[int] = deque(maxlen=MAX_KEY_FRAMES)
        self._breaks: list[_Break] = []
        self._newest_encoded_ns = 0
        self._newest_decoded_ns = 0
        self._seen_any = False
        self.slack_ns = 0

    def on_encoded(self, pts_ns: int | None, key: bool, discontinuous: bool, corrupted: bool) -> None:
        """One coded picture goes into the decoder, in coding order."""
        with self._lock:
            pts = self._newest_encoded_ns if pts_ns is None else pts_ns
            self._newest_encoded_ns = max(self._newest_encoded_ns, pts)
            if key and not corrupted:
                self._keys.append(pts)
            elif corrupted or discontinuous or not self._seen_any:
                self._break(pts, pts)
            self._seen_any = True

    def on_decoder_complaint(self) -> None:
        """The decoder warned, without saying where: anything it holds may be meant."""
        with self._lock:
            self._break(self._newest_decoded_ns, self._newest_encoded_ns)

    def judge(self, pts_ns: int, corrupted: bool) -> bool:
        """Whether the decoded picture at `pts_ns` is damaged, `corrupted` being the decoder's own flag on it."""
        with self._lock:
            self._newest_decoded_ns = pts_ns
            if corrupted:
                self._break(pts_ns, pts_ns)
            if not self._breaks:
                while len(self._keys) > 1 and self._keys[1] <= pts_ns:
                    self._keys.popleft()
                return False
            last_key = max((key for key in self._keys if key <= pts_ns), default=None)
            self._breaks = [each for each in self._breaks if last_key is None or each.end_ns >= last_key]
            return any(each.start_ns - self.slack_ns <= pts_ns for each in self._breaks)

    def _break(self, start_ns: int, end_ns: int) -> None:
        """Note a break. What no key frame parts is one, else a stream without key frames would fill the memory."""
        if self._breaks:
            last = self._breaks[-1]
            parted = any(last.end_ns < key <= start_ns for key in self._keys)
            if not parted or len(self._breaks) >= MAX_KEY_FRAMES:
                start_ns, end_ns = min(last.start_ns, start_ns), max(last.end_ns, end_ns)
                self._breaks.pop()
        self._breaks.append(_Break(start_ns, end_ns))
