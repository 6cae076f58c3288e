"""Records one camera without end: safe frames to segments with sidecars, whatever the disk does.

Nothing here waits for the disk. Frames go through a short queue to a thread that encodes them and rotates segments
(`writer`), which hands those that are full to another one that completes them (`finisher`). When the disk does not
keep up, the queue is full, and frames are dropped and counted.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from edge.anonymize.gate import SafeFrame
from edge.cameras import CameraSettings
from edge.errors import EdgeError, UnsafeFrameError
from edge.recordings.clock import Clock, SystemClock
from edge.recordings.ledger import Provenance
from edge.recordings.outage import SLOW
from edge.recordings.queue import EndItem, FrameItem, FrameQueue, GapItem
from edge.recordings.writer import SegmentWriter
from edge.reports import Event
from edge.types import Frame, Region

SLOW_S = 2.0
OVERLOAD = "overload"       # the encoder, or the disk


class CameraRecorder:
    """Sink and listener for one camera's frames; used by one thread, which calls `tick` at least five times a second.

    emit: gets events, in that thread. Nothing is raised for the state of the disk: frames are dropped meanwhile, and
    recording goes on by itself. Raises EdgeError from `write` and `tick` when encoding does not work.
    """

    def __init__(
        self,
        camera: CameraSettings,
        provenance: Provenance,
        emit: Callable[[Event], None],
        clock: Clock | None = None,
    ) -> None:
        self._emit = emit
        self._events: deque[Event] = deque()
        self._queue = FrameQueue()
        self._seen: tuple[int, frozenset[int]] = (0, frozenset())
        self._gap_reason = ""
        self._full_since_s: float | None = None
        self._dropped = 0
        self._writer = SegmentWriter(camera, provenance, self._events.append, clock or SystemClock(), self._queue)

    @property
    def provenance(self) -> Provenance:
        """What makes the recordings; setting it to another model starts a new segment."""
        return self._writer.provenance

    @provenance.setter
    def provenance(self, provenance: Provenance) -> None:
        self._writer.provenance = provenance

    @property
    def paused(self) -> str:
        """Why nothing is recorded: ``disk full``, ``disk failed``, ``disk slow``; empty while all is well."""
        full_since_s = self._full_since_s
        if full_since_s is not None and time.monotonic() - full_since_s > SLOW_S:
            return self._writer.disk.paused or SLOW
        return self._writer.disk.paused

    @property
    def segments(self) -> int:
        """Finished since the start."""
        return self._writer.finisher.segments

    @property
    def bytes_written(self) -> int:
        """Of finished segments and the open one."""
        return self._writer.finisher.bytes_written + self._writer.open_bytes

    @property
    def segment(self) -> str:
        """Path that the open segment will get; empty while none is."""
        return str(self._writer.segment or "")

    @property
    def dropped(self) -> int:
        """Frames that were not recorded because of the disk."""
        return self._dropped + self._writer.lost_frames

    def observe(self, frame: Frame, regions: Sequence[Region], safe: SafeFrame) -> None:
        """A frame listener: what will be counted for the frame that is written next."""
        self._seen = (len(regions), frozenset(region.track_id for region in regions if region.track_id))

    def write(self, safe: SafeFrame) -> None:
        """Take a safe frame; never waits. Raises UnsafeFrameError for anything else."""
        if type(safe) is not SafeFrame:
            raise UnsafeFrameError(f"a recorder takes safe frames only, not {type(safe).__name__}")
        self._raise_error()
        (faces, tracks), self._seen = self._seen, (0, frozenset())
        frame_bytes = sum(plane.samples.nbytes for plane in safe.picture.planes)
        if not self._queue.has_room(frame_bytes):
            safe.take().release()
            self._dropped += 1
            # For short, who can say which of the two does not keep up; the writer knows when it is the disk.
            self._writer.count_dropped("disk" if self.paused else OVERLOAD)
            self._full_since_s = self._full_since_s or time.monotonic()
            self.gap(self.paused or OVERLOAD)
            return
        self._full_since_s = None
        self._gap_reason = ""
        self._queue.put(FrameItem(safe, faces, tracks))

    def drop(self, reason: str, count: int = 1) -> None:
        """Tell the sidecar of frames that were dropped before they came here."""
        self._writer.count_dropped(reason, count)

    def gap(self, reason: str) -> None:
        """From here on no frames come; the next one that is written ends this."""
        if reason != self._gap_reason:
            self._gap_reason = reason
            self._queue.put(GapItem(reason))

    def end_segment(self) -> None:
        """Have the open segment completed; the next frame starts a new one."""
        self._queue.put(EndItem())

    def tick(self) -> None:
        """Pass on events. Raises EdgeError when encoding does not work."""
        while self._events:
            self._emit(self._events.popleft())
        self._raise_error()

    def close(self, timeout_s: float) -> bool:
        """Write what is queued and complete the last segment. False where that takes longer: what is on disk then keeps
        its `.part` name and is recovered at the next start."""
        deadline_s = time.monotonic() + timeout_s
        self._queue.put(EndItem(last=True))
        in_time = self._writer.join(timeout_s)
        if not in_time:
            self._writer.abort()
        in_time = self._writer.finisher.close(max(0.1, deadline_s - time.monotonic())) and in_time
        self._let_go()
        return in_time

    def abort(self) -> None:
        """Stop at once; the open segment keeps its `.part` name."""
        self._writer.abort()
        self._writer.join(1.0)
        self._writer.finisher.close(1.0)
        self._let_go()

    def _let_go(self) -> None:
        self._queue.clear()
        while self._events:
            self._emit(self._events.popleft())

    def _raise_error(self) -> None:
        error: EdgeError | None = self._writer.error
        if error is not None:
            raise error
