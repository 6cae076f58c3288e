"""One source, end to end: every frame is analysed, masked and only then handed to the recorder.

    source -> detector (several frames in parallel) -> mask planner (looks ahead) -> anonymiser -> recorder

The delay line holds frames until the planner has seen `look_ahead_s` of what follows them. A frame leaves it in one of
three ways only: with the planned regions masked, masked whole, or dropped (P1 in docs/architecture.md).

A file waits for the detector, so that every frame is analysed. A live source does not: see `edge.live`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from edge.anonymize.gate import DAMAGED, Anonymizer, SafeFrame
from edge.detect.schedule import CutDetector, ScanSchedule
from edge.errors import ConfigError, DetectorError, DeviceLostError, EdgeError, RetryLater
from edge.live import LATE, MAX_UNDER_ANALYSIS, OVERLOAD, THREADS, LiveFlow
from edge.messages import Reporter, Summary
from edge.settings import RunSettings
from edge.track.planner import MaskPlanner
from edge.types import Detections, Frame, Picture, Region

# Frames in the delay line never take more than this; at 4K and 60 fps the look-ahead gets shorter instead.
DELAY_LINE_BYTES = 256 << 20
READ_TIMEOUT_S = 0.2
# Live, while results are awaited: how late one is noticed that comes between two frames.
LOOK_INTERVAL_S = 0.02
# Reasons hold error texts; a stream that runs for years must not collect them without end.
UNSURE = "look-ahead failed"
MAX_REASONS = 20


class FrameSource(Protocol):
    """Gives frames in presentation order. `read` waits at most `timeout_s`; None means no frame yet or the end."""

    @property
    def ended(self) -> bool: ...

    @property
    def ended_early(self) -> str | None: ...

    def read(self, timeout_s: float) -> Frame | None: ...


class FaceDetector(Protocol):
    """Finds faces; called from several threads at once. See `edge.detect.detector.Detector`."""

    @property
    def score_threshold(self) -> float: ...

    def scales_for(self, width_px: int, height_px: int) -> tuple[int, ...]: ...

    def detect(self, picture: Picture, scales: Sequence[int], min_score: float) -> Detections: ...


class FrameSink(Protocol):
    """Takes safe frames, and nothing else. See `edge.video.recorder.Recorder`."""

    def write(self, safe: SafeFrame) -> None: ...


FrameListener = Callable[[Frame, Sequence[Region], SafeFrame], None]


def ignore_frame(frame: Frame, regions: Sequence[Region], safe: SafeFrame) -> None:
    """The frame listener that does nothing."""


@dataclass(slots=True)
class _Analysis:
    frame: Frame
    cut: bool
    result: Future[Detections]
    arrived_s: float
    answered_s: float = 0.0

    def note_answer(self, _: Future[Detections]) -> None:
        """When the result was there."""
        self.answered_s = time.monotonic()


@dataclass(slots=True)
class _Delayed:
    """A frame that was analysed, and waits for what follows. Times are monotonic."""

    frame: Frame
    arrived_s: float
    observed_s: float


class Pipeline:
    """Runs one source to its end. Not reusable.

    reporter: gets the running summary about five times a second, and is then asked whether to stop; if so, the source
        is not read further and what has been read is written.
    on_frame: called for each frame just before it is written, with its regions and what became of it.
    live: for a source that does not wait.

    summary: totals so far. frames_read: taken from the source.
    """

    def __init__(
        self,
        source: FrameSource,
        detector: FaceDetector,
        anonymizer: Anonymizer,
        sink: FrameSink,
        settings: RunSettings,
        reporter: Reporter,
        on_frame: FrameListener = ignore_frame,
        live: LiveFlow | None = None,
    ) -> None:
        self._source = source
        self._detector = detector
        self._anonymizer = anonymizer
        self._sink = sink
        self._settings = settings
        self._reporter = reporter
        self._on_frame = on_frame
        self._live = live
        # One detector run per processor scales better than several processors on one run: the networks are small.
        self._threads = settings.detect.threads or (THREADS if live else len(os.sched_getaffinity(0)))
        self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="detect")
        self._analysing: deque[_Analysis] = deque()
        self._delayed: deque[_Delayed] = deque()
        self._failed: dict[int, str] = {}        # frame index -> why it has to be masked whole
        self._stalled = self._cut_short = False
        self._abandoned: list[Frame] = []        # kept until the process ends, see `_observe`
        self._epoch: int | None = None
        self.summary = Summary()
        self.frames_read = 0
        self._started_s = time.monotonic()
        self._reported_s = 0.0

    @property
    def tracks(self) -> int:
        """Different tracks so far; `summary` has them when an epoch ends."""
        return self.summary.tracks + (0 if self._epoch is None else self._planner.tracks_seen)

    def run(self) -> Summary:
        """Process the source to its end (or until asked to stop) and return the totals.

        Raises what the source or the recorder raise; frames still in the delay line are then dropped, unwritten. When
        a live source is lost (RetryLater), they are written first.
        """
        lost: RetryLater | None = None
        try:
            while not self._source.ended:
                if self._report() and self._reporter.stop_requested():
                    self.summary.stopped = True
                    break
                try:
                    waits = self._live is not None and self._analysing
                    frame = self._source.read(LOOK_INTERVAL_S if waits else READ_TIMEOUT_S)
                except RetryLater as error:
                    lost = error
                    break
                if frame is not None:
                    self._admit(frame)
                self._pass_on()
            self._drain()
            if lost is not None:
                raise lost
        finally:
            self._executor.shutdown(wait=not self._stalled and self._live is None, cancel_futures=True)
            unread = [analysis.frame for analysis in self._analysing if self._may_be_used(analysis.result)]
            for frame in [*(delayed.frame for delayed in self._delayed), *unread]:
                frame.release()
            self._delayed.clear()
            self._analysing.clear()
        self.summary.ended_early = self._source.ended_early
        self.summary.elapsed_s = time.monotonic() - self._started_s
        return self.summary

    def _admit(self, frame: Frame) -> None:
        """Start the analysis of a new frame."""
        self.frames_read += 1
        with _released_on_error(frame):
            if frame.epoch != self._epoch:
                self._drain()
                self._begin_epoch(frame)
            cut = self._cuts.is_cut(frame.picture)
            scales = self._schedule.next(frame.pts_ns / 1e9, cut)
            analysis = _Analysis(frame, cut, self._analyse(frame, scales), time.monotonic())
            analysis.result.add_done_callback(analysis.note_answer)
        self._analysing.append(analysis)

    def _analyse(self, frame: Frame, scales: Sequence[int]) -> Future[Detections]:
        refused = ""
        if self._stalled:
            refused = "the detector is stuck"
        elif self._live is not None and sum(not each.result.done() for each in self._analysing) >= MAX_UNDER_ANALYSIS:
            refused = OVERLOAD
        if not refused:
            return self._executor.submit(self._detector.detect, frame.picture, scales, self._min_score)
        result: Future[Detections] = Future()
        result.set_exception(DetectorError(refused))
        return result

    def _pass_on(self) -> None:
        """Observe what has its result, or does not get one any more."""
        while self._analysing:
            oldest = self._analysing[0]
            if self._live is not None:
                waits = self._live.left_s(oldest.arrived_s) > 0
            else:
                waits = len(self._analysing) <= self._threads + 1
            if waits and not oldest.result.done():
                return
            self._observe(self._analysing.popleft())

    def _begin_epoch(self, frame: Frame) -> None:
        """New picture format: nothing that was known about the old one holds."""
        picture, track = frame.picture, self._settings.track
        self._epoch = frame.epoch
        self._min_score = self._detector.score_threshold * track.keep_ratio
        scales = self._detector.scales_for(picture.width_px, picture.height_px)
        self._schedule = ScanSchedule(scales, self._settings.detect.scan_interval_s)
        self._cuts = CutDetector()
        self._planner = MaskPlanner(track, self._detector.score_threshold, picture.width_px, picture.height_px)
        frame_bytes = sum(plane.samples.nbytes for plane in picture.planes)
        self._delay_limit = max(2, DELAY_LINE_BYTES // frame_bytes)

    def _observe(self, analysis: _Analysis) -> None:
        """Tell the planner what was found in the oldest frame under analysis, and write what need not wait longer."""
        frame = analysis.frame
        with _released_on_error(frame):
            try:
                detections = self._outcome(analysis)
            except DetectorError as error:
                if not self._may_be_used(analysis.result):
                    # A stuck thread still reads these pixels: they can neither be masked and recorded nor given back.
                    self._abandoned.append(frame)
                    self.summary.detector_failures += 1
                    return
                self._failed[frame.index] = error.message
                self._planner.observe_failure(frame.index, frame.pts_ns / 1e9, analysis.cut)
            else:
                self._planner.observe(frame.index, frame.pts_ns / 1e9, detections, analysis.cut)
        now_s = time.monotonic()
        if self._live is not None and analysis.answered_s:
            self._live.took("detect", analysis.answered_s - analysis.arrived_s)
        self._delayed.append(_Delayed(frame, analysis.arrived_s, now_s))
        while self._delayed and (
            len(self._delayed) > self._delay_limit or self._planner.ready(self._delayed[0].frame.index)
        ):
            self._write(self._delayed.popleft())

    def _is_unsure(self, frame: Frame) -> bool:
        """Whether the oldest frame has to be hidden although it was analysed.

        A face that a detector misses in one frame it finds in one of the next, and the mask then starts before that.
        Nobody can tell where most of the frames in the delay line were not analysed, or are damaged; nor where a
        camera is lost: of a file that ends all is seen, a camera may be lost just when somebody comes into view.
        """
        unknown = sum(each.frame.damaged or each.frame.index in self._failed for each in self._delayed)
        if 2 * unknown > len(self._delayed):
            return True
        if not self._cut_short:
            return False
        newest = self._delayed[-1].frame if self._delayed else frame
        return (newest.pts_ns - frame.pts_ns) / 1e9 < self._settings.track.look_ahead_s / 2

    def _outcome(self, analysis: _Analysis) -> Detections:
        """What the detector found, checked. Raises DetectorError for anything else, whatever went wrong in there."""
        try:
            return self._checked_result(analysis)
        except DetectorError as error:
            if self._live is None or error.message in (LATE, OVERLOAD):
                raise
            raise DetectorError(self._live.explain(error)) from error

    def _checked_result(self, analysis: _Analysis) -> Detections:
        result, live = analysis.result, self._live
        if self._stalled and not _is_settled(result):
            raise DetectorError("the detector is stuck")
        try:
            wait_s = self._settings.detect.deadline_s if live is None else live.left_s(analysis.arrived_s)
            detections = result.result(wait_s)
        except FutureTimeoutError:
            if live is not None:
                result.cancel()
                raise DetectorError(LATE) from None
            self._stalled = True       # its threads cannot be stopped: everything from here on is masked whole
            raise DetectorError(f"no answer from the detector in {self._settings.detect.deadline_s:g} s") from None
        except CancelledError:
            raise DetectorError("the detector is stuck") from None
        except (ConfigError, DeviceLostError):
            raise       # not about this frame: no later one will fare better
        except EdgeError as error:
            raise DetectorError(error.message) from error
        except Exception as error:
            raise DetectorError(f"{type(error).__name__}: {error}") from error
        if not isinstance(detections, Detections):
            raise DetectorError(f"the detector returned {type(detections).__name__}")
        boxes, scores = detections.boxes, detections.scores
        if not (np.isfinite(boxes).all() and np.isfinite(scores).all() and (boxes[:, 2:] > boxes[:, :2]).all()):
            raise DetectorError("the detector returned something that is no box")
        return detections

    def _write(self, delayed: _Delayed) -> None:
        """The only way out of the delay line: masked, masked whole, or (live only) dropped."""
        frame, live, begun_s = delayed.frame, self._live, time.monotonic()
        with _released_on_error(frame):
            regions = self._planner.plan(frame.index)
            why = self._failed.pop(frame.index, None)
            self.summary.detector_failures += why is not None
            if why is None and self._is_unsure(frame):
                why = UNSURE
            if live is not None and live.on_doubt == "drop" and (why is not None or frame.damaged):
                frame.release()
                live.drop(why or DAMAGED)
                return
            safe = self._anonymizer.apply(frame, regions) if why is None else self._anonymizer.redact(frame, why)
            if live is not None and live.on_doubt == "drop" and safe.redaction == "whole":
                safe.take().release()
                live.drop("masking failed")
                return
            masked_s = time.monotonic()
            self._count(safe, regions)
            self._on_frame(frame, regions, safe)
            self._sink.write(safe)
        if live is not None:
            written_s = time.monotonic()
            live.took("look_ahead", begun_s - delayed.observed_s)
            live.took("mask", masked_s - begun_s)
            live.took("write", written_s - masked_s)
            live.delay_s = written_s - delayed.arrived_s

    def _drain(self) -> None:
        """Finish everything that is under way: the source ended, or its picture format changed."""
        while self._analysing:
            self._observe(self._analysing.popleft())
        self._cut_short = self._live is not None
        while self._delayed:
            self._write(self._delayed.popleft())
        self._cut_short = False
        if self._epoch is not None:
            self.summary.tracks += self._planner.tracks_seen
            self._epoch = None

    def _may_be_used(self, result: Future[Detections]) -> bool:
        """Whether a frame under analysis may be masked or given back. Live, always: a thread that still looks at it
        sees other pixels then (its view keeps the memory), and nobody waits for its result."""
        return self._live is not None or _is_settled(result)

    def _count(self, safe: SafeFrame, regions: Sequence[Region]) -> None:
        summary = self.summary
        summary.frames += 1
        summary.faces += len(regions)
        summary.masked_share_sum += safe.masked_share
        if safe.redaction == "whole":
            known = safe.reason in summary.whole_frames or len(summary.whole_frames) < MAX_REASONS
            summary.whole_frames[safe.reason if known else "other reasons"] += 1

    def _report(self) -> bool:
        """Report progress when it is time to; true when it was."""
        now_s = time.monotonic()
        if now_s - self._reported_s < READ_TIMEOUT_S:
            return False
        self._reported_s = now_s
        self.summary.elapsed_s = now_s - self._started_s
        self._reporter.progress(self.summary)
        return True


@contextlib.contextmanager
def _released_on_error(frame: Frame) -> Iterator[None]:
    """Give the frame back when something raises: it is in none of the queues then, so nobody else would."""
    try:
        yield
    except BaseException:
        frame.release()
        raise


def _is_settled(result: Future[Detections]) -> bool:
    """Whether no thread looks at the picture any more, nor will."""
    return result.cancel() or result.done()
