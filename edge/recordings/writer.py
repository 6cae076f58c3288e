"""The thread that writes one camera's segments: opens, fills and rotates them, and waits out a disk in trouble."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from edge.anonymize.gate import SafeFrame
from edge.cameras import CameraSettings
from edge.errors import EdgeError, StorageError
from edge.recordings.chain import Chain
from edge.recordings.clock import Clock, utc_of
from edge.recordings.finisher import Finisher
from edge.recordings.gaps import STOPPED, GapLog
from edge.recordings.ledger import Gap, Head, Ledger, Provenance, add_reason
from edge.recordings.names import segment_name
from edge.recordings.root import Root, storage_error
from edge.recordings.snapshot import Snapshot, snapshot_path
from edge.reports import Event, Level
from edge.storage import replace_file
from edge.types import Frame
from edge.video.encoders import choose_encoder
from edge.video.format import PictureFormat
from edge.video.recorder import buffer_of_frame, format_of_frame
from edge.video.segment import Segment, SegmentSpec

_log = logging.getLogger(__name__)

CHECK_INTERVAL_S, RETRY_S = 1.0, 3.0
CLOCK_STEP_S = 5.0
# A jump in the source's time makes a new segment, so that no frame seems to last for minutes.
MAX_JUMP_S = 2.0
MAX_UNFINISHED = 2
SLOW_S, HANGS_S, ANSWER_S = 2.0, 20.0, 10.0
_POLL_S = 0.2


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


@dataclass(slots=True)
class _Open:
    segment: Segment
    final: Path
    ledger: Ledger
    epoch: int
    format: PictureFormat
    start_pts_ns: int
    end_pts_ns: int
    start_monotonic_s: float
    draft_is_old: bool = True


class _AbortedError(Exception):
    """`SegmentWriter.abort` was called while waiting."""


class SegmentWriter:
    """Takes items in order from `queue` and writes them. paused: why nothing is written, empty while all is well.

    error: set when it ended because encoding does not work; the owner raises it.
    """

    def __init__(self, camera: CameraSettings, provenance: Provenance, tell: Callable[[Event], None], clock: Clock,
                 next_item: Callable[[float], Item | None]) -> None:  # fmt: skip
        self._camera, self._tell, self._clock, self._next_item = camera, tell, clock, next_item
        self.provenance = provenance
        self._root = Root(camera.recording.directory, camera.recording.retention.min_free_bytes)
        self._folder = camera.recording.directory / camera.name
        self.finisher = Finisher(self._folder, tell)
        self.paused = ""
        self.error: EdgeError | None = None
        self.dropped: Counter[str] = Counter()      # newly, by reasons that others know; see `count_dropped`
        self._dropped_lock = threading.Lock()
        self.total_dropped = 0
        self._gaps = GapLog(clock)
        self._open: _Open | None = None
        self._aborted = threading.Event()
        self._disk_full = False
        self._retry_s = self._checked_s = float("-inf")
        self._snapshot_s = float("-inf")
        self._clock_offset_s: float | None = None
        self.open_bytes = 0
        self._thread = threading.Thread(target=self._run, name="write", daemon=True)
        self._thread.start()

    @property
    def segment(self) -> Path | None:
        """Final name of the segment that is open."""
        opened = self._open
        return opened.final if opened else None

    def count_dropped(self, reason: str, count: int = 1) -> None:
        """Count frames that never come here, for the sidecar. Any thread."""
        with self._dropped_lock:
            add_reason(self.dropped, reason, count)

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
                item = self._next_item(_POLL_S)
                self._look_after()
                if isinstance(item, FrameItem):
                    self._take(item)
                elif isinstance(item, GapItem):
                    self._gaps.begin(item.reason)
                elif isinstance(item, EndItem):
                    self._end(STOPPED if item.last else "")
                    if item.last:
                        return
        except _AbortedError:
            pass
        except EdgeError as error:
            self.error = error
        except Exception as error:
            _log.exception("recording failed")
            self.error = EdgeError(f"recording failed: {type(error).__name__}: {error}")
        finally:
            if self._open is not None:
                opened, self._open = self._open, None
                opened.segment.abandon()

    def _look_back(self) -> None:
        """Recover what an earlier process left, and see when its recording ended."""
        try:
            self._root.check()
            if not self._folder.is_dir():
                return
            self.finisher.recover()
            self.finisher.answers(HANGS_S)
            chain = Chain(self._folder)
            head = chain.head()
            if head is not None:
                self._gaps.began_after(utc_of(chain.read(head.sidecar).fields["end_utc"]))
        except OSError as error:
            self._pause(str(error))
        except (ValueError, KeyError, TypeError):
            return      # a sidecar that tells no time

    def _look_after(self) -> None:
        """Once a second: is the disk there, is there room, did somebody set the clock."""
        now_s = self._clock.monotonic_s()
        if now_s - self._checked_s < CHECK_INTERVAL_S:
            return
        self._checked_s = now_s
        try:
            self._root.check()
            space = self._root.space()
            self._disk_full = space.free_bytes < (space.resume_bytes if self._disk_full else space.pause_bytes)
        except StorageError as error:
            self._fail(error)
            return
        if self._disk_full:
            self._end()
            self._pause(f"disk full ({space.free_bytes >> 20} MiB free, {space.floor_bytes >> 20} MiB must stay free)",
                        "disk full")
        opened = self._open
        if opened is not None:
            self.open_bytes = opened.segment.size_bytes
            if opened.draft_is_old and opened.ledger.frames and self.finisher.unfinished <= MAX_UNFINISHED:
                opened.draft_is_old = False
                self.finisher.note_draft(opened.final, opened.ledger)

    def _take(self, item: FrameItem) -> None:
        waits = self.paused and self._open is None and self._clock.monotonic_s() < self._retry_s
        if self._disk_full or waits:
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
        step = self._clock_stepped()
        opened = self._open
        silent_s = 0.0 if opened is None else (frame.pts_ns - opened.end_pts_ns) / 1e9
        if opened is not None and self._must_rotate(opened, frame, format_, silent_s, step):
            self._end()
            opened = None
        if opened is None:
            opened = self._begin(frame, format_, rate)
        self._wait_for_room(opened.segment)
        opened.segment.write(buffer_of_frame(frame), frame.pts_ns, frame.duration_ns)
        opened.end_pts_ns = frame.pts_ns + frame.duration_ns
        ledger, safe = opened.ledger, item.safe
        ledger.duration_s = (opened.end_pts_ns - opened.start_pts_ns) / 1e9
        ledger.provenance = self.provenance
        ledger.count(item.faces, safe.masked_share, item.tracks, safe.reason if safe.redaction == "whole" else None)
        self._tell_gaps(opened, frame.duration_ns / 1e9, silent_s)
        self._resume()

    def _tell_gaps(self, opened: _Open, duration_s: float, silent_s: float) -> None:
        ledger = opened.ledger
        for gap in self._gaps.frame_written(ledger.end_utc_s, duration_s, silent_s):
            ledger.add_gap(gap)
            opened.draft_is_old = True
        with self._dropped_lock:
            for reason, count in self.dropped.items():
                add_reason(ledger.dropped, reason, count)
            self.dropped.clear()

    def _must_rotate(self, opened: _Open, frame: Frame, format_: PictureFormat, silent_s: float, step: bool) -> bool:
        if frame.epoch != opened.epoch or format_ != opened.format or step:
            return True
        duration_s = frame.duration_ns / 1e9
        if frame.pts_ns < opened.start_pts_ns or silent_s < -max(duration_s, 0.5) or (
            silent_s > max(MAX_JUMP_S, 3 * duration_s)
        ):
            return True
        known, now = opened.ledger.provenance.model_sha256, self.provenance.model_sha256
        if known and known != now:
            return True
        length_s = (frame.pts_ns - opened.start_pts_ns) / 1e9
        # Where the disk cannot keep up, segments become longer rather than frames lost.
        return length_s >= self._camera.recording.segment_s and self.finisher.unfinished < MAX_UNFINISHED

    def _begin(self, frame: Frame, format_: PictureFormat, rate: Fraction | None) -> _Open:
        waited_s = 0.0
        while self.finisher.unfinished >= MAX_UNFINISHED:
            self._wait(waited_s)
            waited_s += _POLL_S
        self._root.check()
        record, start_utc_s = self._camera.run.record, self._clock.utc_s()
        encoder = choose_encoder(record.codec)
        final = segment_name(self._root.path, self._camera.name, start_utc_s)
        self._root.make_folder(final.parent)
        segment = Segment(SegmentSpec(final, record, encoder, format_, rate, frame.pts_ns, frame.pts_ns))
        head = Head(self._camera.name, start_utc_s, self._clock.is_synchronised(), format_.stored_width_px,
                    format_.stored_height_px, record.codec, encoder, self._camera.config_sha256)
        now_s = self._clock.monotonic_s()
        self._clock_offset_s = start_utc_s - now_s
        self._open = _Open(segment, final, Ledger(head, self.provenance), frame.epoch, format_, frame.pts_ns,
                           frame.pts_ns, now_s)
        self._checked_s = float("-inf")         # and with that the draft is written
        return self._open

    def _end(self, reason: str = "") -> None:
        """Have the open segment completed. reason: of the gap that begins here."""
        if reason:
            self._gaps.begin(reason)
        opened, self._open = self._open, None
        if opened is None:
            return
        self.open_bytes = 0
        gap: Gap | None = self._gaps.unfinished()
        if gap is not None:
            opened.ledger.add_gap(gap)
        self.finisher.finish(opened.segment, opened.final, opened.ledger)

    def _clock_stepped(self) -> bool:
        offset_s = self._clock.utc_s() - self._clock.monotonic_s()
        if self._clock_offset_s is None or abs(offset_s - self._clock_offset_s) <= CLOCK_STEP_S:
            return False
        self._say("warning", "clock-stepped", f"the clock was set by {offset_s - self._clock_offset_s:+.0f} s")
        self._clock_offset_s = offset_s
        return True

    def _wait_for_room(self, segment: Segment) -> None:
        waited_s = 0.0
        while not segment.wait_for_room(_POLL_S):
            self._wait(waited_s)
            waited_s += _POLL_S
            if HANGS_S < waited_s <= HANGS_S + _POLL_S and self.finisher.answers(ANSWER_S):
                raise EdgeError(f"{self._camera.name}: the encoder hangs")

    def _wait(self, waited_s: float) -> None:
        """One more step of waiting for the disk, which may take for ever."""
        if self._aborted.wait(0.0 if self._open else _POLL_S):
            raise _AbortedError
        if waited_s > SLOW_S:
            self._pause("disk slow", "disk slow")

    def _fail(self, error: OSError) -> None:
        """The disk is in trouble: leave what there is, wait, try again."""
        if not isinstance(error, EdgeError):
            error = storage_error(self._root.path, error)
        opened, self._open = self._open, None
        if opened is not None:
            self.finisher.abandon(opened.segment)
        self._retry_s = self._clock.monotonic_s() + RETRY_S
        self._pause(str(error), "disk failed")

    def _pause(self, text: str, reason: str = "disk failed") -> None:
        self._gaps.begin(reason)
        if self.paused != reason:
            self._say("error", f"recording-paused-{reason.replace(' ', '-')}", f"recording pauses: {text}")
        self.paused = reason

    def _resume(self) -> None:
        if self.paused:
            self._say("info", "recording-resumed", "recording goes on")
            self.paused = ""

    def _count_lost(self) -> None:
        self.total_dropped += 1
        self.count_dropped("disk")

    def _keep_snapshot(self, safe: SafeFrame) -> None:
        interval_s, now_s = self._camera.recording.snapshot_interval_s, self._clock.monotonic_s()
        if interval_s is None or now_s - self._snapshot_s < interval_s:
            return
        if self.finisher.unfinished or self._open is None:
            return
        self._snapshot_s = now_s
        snapshot, path = Snapshot(safe), snapshot_path(self._folder)
        self.finisher.do(lambda: replace_file(path, snapshot.jpeg(), sync=False))

    def _say(self, level: Level, key: str, text: str) -> None:
        self._tell(Event(level, key, text, self._camera.name))
