"""A file played as if it were a camera: in real time, over and over, on one time line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from edge.errors import RetryLater
from edge.settings import SourceSettings
from edge.types import Frame
from edge.video.inputs import Input
from edge.video.source import Source

BEHIND_S = 0.5          # frames that are due for longer than this are left out, as a camera would have lost them


class PacedFile:
    """A `FrameSource` of a file; see `Source` for what it gives and raises.

    loop: begin again at the end; times go on, the epoch stays while the format does. Without, the end is the end.
    """

    def __init__(
        self, opened: Input, settings: SourceSettings, loop: bool, cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        self._open: Callable[[], Source] = lambda: Source(opened, settings, cancelled)
        self._source = self._open()
        self.info = replace(self._source.info, live=True)
        self.ended = False
        self.ended_early: str | None = None
        self.behind = 0
        self._loop = loop
        self._next: Frame | None = None
        self._first_pts_ns: int | None = None       # of this turn, in the file
        self._shift_ns = 0                          # what has to be added to times of the file
        self._end_ns = 0
        self._index = 0
        self._started_s: float | None = None        # when time 0 of the time line was played

    @property
    def hangs(self) -> bool:
        """As of `Source`."""
        return self._source.hangs

    def look_behind(self) -> int:
        """As of `Source`."""
        return self.behind

    def read(self, timeout_s: float) -> Frame | None:
        """The next frame when its time has come; None when that is not within `timeout_s`, or at the end."""
        deadline_s = time.monotonic() + timeout_s
        while not self.ended:
            self._next = self._next or self._read_file(max(0.0, deadline_s - time.monotonic()))
            if self._next is None:
                return None
            now_s = time.monotonic()
            if self._started_s is None:
                self._started_s = now_s - self._next.pts_ns / 1e9
            due_s = self._started_s + self._next.pts_ns / 1e9
            if due_s > deadline_s:
                time.sleep(max(0.0, deadline_s - now_s))
                return None
            time.sleep(max(0.0, due_s - now_s))
            frame, self._next = self._next, None
            if now_s - due_s <= BEHIND_S:
                return frame
            frame.release()
            self.behind += 1
            if now_s > deadline_s:
                return None
        return None

    def close(self) -> None:
        """As of `Source`."""
        self.ended = True
        frame, self._next = self._next, None
        if frame is not None:
            frame.release()
        self._source.close()

    def _read_file(self, timeout_s: float) -> Frame | None:
        frame = self._source.read(timeout_s)
        if frame is None:
            if self._source.ended:
                self._turn()
            return None
        if self._first_pts_ns is None:
            self._first_pts_ns = frame.pts_ns
            self._shift_ns = self._end_ns - frame.pts_ns
        pts_ns = frame.pts_ns + self._shift_ns
        self._end_ns = pts_ns + frame.duration_ns
        frame = replace(frame, pts_ns=pts_ns, index=self._index)
        self._index += 1
        return frame

    def _turn(self) -> None:
        self.ended = True
        if not self._loop:
            self.ended_early = self._source.ended_early
            return
        if self._first_pts_ns is None:
            raise RetryLater(f"{self.info.name}: gives no picture any more", "check the file")
        self._source.close()
        self._first_pts_ns = None
        self._source = self._open()
        self.ended = False
