"""The thread that writes one camera's segments: opens, fills and rotates them, and waits out a disk in trouble."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from edge.anonymize.gate import SafeFrame
from edge.cameras import CameraSettings
from edge.errors import EdgeError
from edge.recordings.chain import Chain
from edge.recordings.clock import Clock, utc_of
from edge.recordings.finisher import Finisher
from edge.recordings.gaps import STOPPED, GapLog
from edge.recordings.ledger import Provenance, add_reason
from edge.recordings.open_segment import OpenSegment
from edge.recordings.outage import SLOW, DiskWatch
from edge.recordings.queue import EndItem, FrameItem, FrameQueue, GapItem
from edge.recordings.root import Root
from edge.recordings.snapshot import Snapshot, snapshot_path
from edge.reports import Event, Level
from edge.storage import replace_file, storage_error
from edge.types import Frame
from edge.video.format import PictureFormat
from edge.video.recorder import format_of_frame
from edge.video.segment import Segment

_log = logging.getLogger(__name__)

CLOCK_STEP_S = 5.0
MAX_UNFINISHED = 2                      # segments that wait to be completed
SLOW_S, HANGS_S, ANSWER_S = 2.0, 20.0, 10.0
_POLL_S = 0.2


class _AbortedError(Exception):
    """`SegmentWriter.abort` was called while waiting."""


class SegmentWriter:
    """Writes what comes out of `queue`, in order. tell: gets events, from other threads than the caller's.

    error: set when it ended because encoding does not work; its owner raises it.
    """

    def __init__(self, camera: CameraSettings, provenance: Provenance, tell: Callable[[Event], None], clock: Clock,
                 queue: FrameQueue) -> None:  # fmt: skip
        self._camera, self._tell, self._clock, self._queue = camera, tell, clock, queue
        self.provenance = provenance
        self._root = Root(camera.recording.directory, camera.recording.retention.min_free_bytes)
        self._folder = camera.recording.directory / camera.name
        self.finisher = Finisher(self._folder, tell)
        self.disk = DiskWatch(self._root, clock, self._say)
        self.error: EdgeError | None = None
        self.open_bytes = self.lost_frames = 0
        self._dropped: Counter[str] = Counter()         # not yet in a ledger
        self._dropped_lock = threading.Lock()
        self._gaps = GapLog(clock)
        self._open: OpenSegment | None = None
        self._aborted = threading.Event()
        self._has_looked_back = False
        self._snapshot_s = float("-inf")
        self._clock_offset_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="write", daemon=True)
        self._thread.start()

    @property
    def segment(self) -> Path | None:
        """Final name of the segment that is open."""
        opened = self._open
        return opened.final if opened else None

    def count_dropped(self, reason: str, count: int = 1) -> None:
        """Count frames that are not recorded, for the sidecar. Any thread."""
        with self._dropped_lock:
            add_reason(self._dropped, reason, count)

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; false when it takes longer."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def abort(self) -> None:
        """End without completing anything."""
        self._aborted.set()

    # What follows runs in the thread.

    def _run(self) -> None:
        try:
            self._look_back()
            while not self._aborted.is_set():
                item = self._queue.get(_POLL_S)
                self._look_after()
                if isinstance(item, FrameItem):
                    self._take(item)
                elif isinstance(item, GapItem):
                    self._gaps.begin(item.reason)
                elif isinstance(item, EndItem):
                    if item.last:
                        self._gaps.begin(STOPPED)
                    self._end()
                    if item.last:
                        return
        except _AbortedError:
            pass
        except EdgeError as error:
            self.error = error
        except Exception as error:
            _log.exception("recording failed")
            self.error = EdgeError(f"{self._camera.name}: recording failed: {type(error).__name__}: {error}")
        finally:
            if self._open is not None:
                opened, self._open = self._open, None
                opened.file.abandon()

    def _look_back(self) -> None:
        """Recover what an earlier process left, and see when its recording ended."""
        try:
            self._root.check()
            self._has_looked_back = True
            if not self._folder.is_dir():
                return
            self.finisher.recover()
            self.finisher.answers(ANSWER_S)
            chain = Chain(self._folder)
            head = chain.head()
            if head is not None:
                self._gaps.began_after(utc_of(chain.read(head.sidecar).fields["end_utc"]))
        except OSError as error:
            self._fail(error)
        except (ValueError, KeyError, TypeError, AttributeError):
            return      # a sidecar that tells no time

    def _look_after(self) -> None:
        """Once a second: is the disk there, is there room; what is known about the open segment."""
        if not self.disk.is_due():
            return
        try:
            self.disk.check()
        except OSError as error:
            self._fail(error)
            return
        if self.disk.is_full:
            self._gaps.begin(self.disk.paused)
            self._end()
        opened = self._open
        if opened is not None:
            self.open_bytes = opened.file.size_bytes
            if opened.draft_is_old and opened.ledger.frames and self.finisher.unfinished < MAX_UNFINISHED:
                opened.draft_is_old = False
                self.finisher.note_draft(opened.final, opened.ledger)

    def _take(self, item: FrameItem) -> None:
        if self._open is None and not self.disk.may_open():
            item.safe.take().release()
            self._count_lost()
            return
        self._keep_snapshot(item.safe)
        frame = item.safe.take()
        try:
            self._write(frame, item)
        except OSError as error:        # StorageError is one
            self._count_lost()
            self._fail(error)
        finally:
            frame.release()

    def _write(self, frame: Frame, item: FrameItem) -> None:
        format_, rate = format_of_frame(frame)
        silent_s = 0.0 if self._open is None else self._open.silent_s(frame)
        if self._open is not None and self._must_rotate(self._open, frame, format_):
            self._end()
        opened = self._open or self._begin(frame, format_, rate)
        self._wait_for_room(opened.file)
        opened.write(frame, item, self.provenance)
        for gap in self._gaps.frame_written(opened.ledger.end_utc_s, frame.duration_ns / 1e9, silent_s):
            opened.ledger.add_gap(gap)
            opened.draft_is_old = True
        with self._dropped_lock:
            for reason, count in self._dropped.items():
                add_reason(opened.ledger.dropped, reason, count)
            self._dropped.clear()
        self.disk.resume()

    def _must_rotate(self, opened: OpenSegment, frame: Frame, format_: PictureFormat) -> bool:
        if self._clock_was_set() or not opened.fits(frame, format_, self.provenance):
            return True
        # Where the disk cannot keep up, segments become longer rather than frames lost.
        return (opened.length_s(frame) >= self._camera.recording.segment_s
                and self.finisher.unfinished < MAX_UNFINISHED)

    def _begin(self, frame: Frame, format_: PictureFormat, rate: Fraction | None) -> OpenSegment:
        waited_s = 0.0
        while self.finisher.unfinished >= MAX_UNFINISHED:
            if self._aborted.wait(_POLL_S):
                raise _AbortedError
            waited_s += _POLL_S
            self._note_slow(waited_s)
        if not self._has_looked_back:       # there was no disk to look at
            self._look_back()
        self._clock_offset_s = self._clock.utc_s() - self._clock.monotonic_s()
        self._open = OpenSegment.begin(self._camera, self._root, self._clock, self.provenance, frame, format_, rate)
        return self._open

    def _end(self) -> None:
        """Have the open segment completed. A gap that is open lasts up to the segment that follows."""
        opened, self._open = self._open, None
        if opened is None:
            return
        self.open_bytes = 0
        gap = self._gaps.unfinished()
        if gap is not None:
            opened.ledger.add_gap(gap)
        self.finisher.finish(opened.file, opened.final, opened.ledger)

    def _clock_was_set(self) -> bool:
        offset_s = self._clock.utc_s() - self._clock.monotonic_s()
        if self._clock_offset_s is None or abs(offset_s - self._clock_offset_s) <= CLOCK_STEP_S:
            return False
        self._say("warning", "clock-stepped", f"the clock was set by {offset_s - self._clock_offset_s:+.0f} s")
        self._clock_offset_s = offset_s
        return True

    def _wait_for_room(self, file: Segment) -> None:
        """Wait for the encoder, for ever if the disk hangs. Raises EdgeError if it is the encoder that hangs."""
        waited_s = 0.0
        while not file.wait_for_room(_POLL_S):
            if self._aborted.is_set():
                raise _AbortedError
            waited_s += _POLL_S
            self._note_slow(waited_s)
            if HANGS_S < waited_s <= HANGS_S + _POLL_S and self._disk_answers():
                raise EdgeError(f"{self._camera.name}: the encoder hangs")

    def _disk_answers(self) -> bool:
        assert self._open is not None
        self.finisher.note_draft(self._open.final, self._open.ledger, sync=True)
        return self.finisher.answers(ANSWER_S)

    def _note_slow(self, waited_s: float) -> None:
        if waited_s > SLOW_S:
            self._gaps.begin(SLOW)
            self.disk.pause(SLOW, f"nothing could be written for {SLOW_S:.0f} s")

    def _fail(self, error: OSError) -> None:
        """The disk is in trouble: leave what there is, wait, try again."""
        opened, self._open = self._open, None
        if opened is not None:
            self.open_bytes = 0
            self.finisher.abandon(opened.file)
        self.disk.failed(error if isinstance(error, EdgeError) else storage_error(self._root.path, error))
        self._gaps.begin(self.disk.paused)

    def _count_lost(self) -> None:
        self.lost_frames += 1
        self.count_dropped("disk")

    def _keep_snapshot(self, safe: SafeFrame) -> None:
        interval_s, now_s = self._camera.recording.snapshot_interval_s, self._clock.monotonic_s()
        if interval_s is None or now_s - self._snapshot_s < interval_s:
            return
        if self._open is None or self.finisher.unfinished:
            return
        self._snapshot_s = now_s
        snapshot, path = Snapshot(safe), snapshot_path(self._folder)
        self.finisher.do(lambda: replace_file(path, snapshot.jpeg(), sync=False))

    def _say(self, level: Level, key: str, text: str) -> None:
        self._tell(Event(level, key, text, self._camera.name))
