"""Sources of pictures: a file, an RTSP stream or a camera, read frame by frame as NV12."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from edge.errors import EdgeError, InputError, InterruptedJobError, RetryLater
from edge.settings import SourceSettings
from edge.types import Frame
from edge.video.audio import AudioStream
from edge.video.completeness import falls_short
from edge.video.damage import REORDER_FRAMES
from edge.video.decoders import MAX_WAITING
from edge.video.format import PictureFormat, format_of, frame_rate_of
from edge.video.graph import ReadGraph
from edge.video.gst import CLOCK_TIME_NONE, load, reading_error
from edge.video.inputs import Input, parse_spec
from edge.video.picture import pool_is_small, wrap_buffer
from edge.video.reachability import why_unreachable
from edge.video.timeline import Moment, Timeline

OPEN_TIMEOUT_S = 20.0
FILE_STALL_TIMEOUT_S = 60.0                # a decoder that gives nothing for this long on a file hangs
DRAIN_TIMEOUT_S = 2.0                      # after an error, for pictures that are still in the decoder
_SLICE_S = 0.05                            # longest wait in C before bus messages are looked at
_IDLE_LOOKS = 6
_OWNERS_AFTER_APPSINK = 2                  # this program, and the sample that appsink recycles: see `owners`


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """What is known about a source once its first picture is decoded.

    name: without credentials. width_px, height_px: of the stored picture: upright and even. frame_rate: nominal, None
    where unknown or variable. duration_s, frames: None where unknown; frames is an estimate. decoder: the element.
    rotation_deg: clockwise turn that was applied.
    """

    name: str
    live: bool
    width_px: int
    height_px: int
    frame_rate: Fraction | None
    duration_s: float | None
    frames: int | None
    codec: str
    decoder: str
    rotation_deg: int
    has_audio: bool


class Source:
    """One opened source; made by `open_source`, used by one thread.

    ended: no more frames will come. ended_early: why it ended before its end, or None. complete: it was read to its
        end. behind: frames of a live source that were decoded but not read in time, and so left out.
    hangs: closing it did not work; what it held is lost to this process.
    """

    def __init__(self, opened: Input, settings: SourceSettings, cancelled: Callable[[], bool] = lambda: False) -> None:
        self.input = opened
        self.ended = False
        self.ended_early: str | None = None
        self.complete = False
        self.behind = 0
        self.hangs = False
        self._pulled = 1                     # with the first one, see `_open`
        self._cancelled = cancelled
        self._settings = settings
        self._flags = load().Gst.BufferFlags
        self._caps_id: int | None = None
        self._format: PictureFormat | None = None
        self._frame_rate: Fraction | None = None
        self._must_copy = False
        self._epoch, self._index = 0, 0
        self._timeline = Timeline()
        self._buffers_end_ns = 0
        self._error: EdgeError | None = None
        self._graph, first = self._open()
        self._held: deque[Any] = deque((first,))
        self._last_arrival_s = time.monotonic()
        try:
            self.info = self._describe(first)
        except BaseException:
            self.close()
            raise

    @property
    def audio(self) -> AudioStream | None:
        """For a recorder that keeps it; live audio is not kept."""
        return None if self.input.live else self._graph.audio

    @property
    def tags(self) -> Any:
        """GstTagList of what describes the source (title, date, place, device), for a recorder that keeps it."""
        return self._graph.tags

    def read(self, timeout_s: float) -> Frame | None:
        """The next frame. None at the end (`ended` is set then) or when none came within `timeout_s`.

        Raises RetryLater when a live source gave nothing for `stall_timeout_s`, or failed. A file that breaks off after
        good frames just ends, with `ended_early`.
        """
        if self.ended:
            return None
        sample = self._held.popleft() if self._held else self._pull(timeout_s)
        if sample is None:
            return None
        caps, buffer, segment = sample.get_caps(), sample.get_buffer(), sample.get_segment()
        del sample                                        # one owner fewer
        frame = self._frame(caps, buffer, segment)
        limit_s = self._settings.duration_s
        if limit_s is not None and frame.pts_ns - (self._timeline.first_ns or 0) >= limit_s * 1e9:
            frame.release()
            self.ended = True
            return None
        return frame

    def close(self) -> None:
        """Stop reading and free everything but frames that are still held; takes at most 5 s."""
        self.ended = True
        self._held.clear()
        self.hangs = not self._graph.close()

    def _open(self) -> tuple[ReadGraph, Any]:
        """Decode the first picture, with the first decoder that can."""
        deadline_s = time.monotonic() + OPEN_TIMEOUT_S
        attempt = 0
        while True:
            graph = ReadGraph(self.input, self._settings, attempt)
            try:
                graph.start()
                return graph, self._first_sample(graph, deadline_s)
            except EdgeError:
                again = graph.more_decoders and time.monotonic() < deadline_s and not self._cancelled()
                graph.close()
                if not again:
                    raise
                attempt += 1
            except BaseException:
                graph.close()
                raise

    def _first_sample(self, graph: ReadGraph, deadline_s: float) -> Any:
        name, live = self.input.name, self.input.live
        idle_looks = 0
        while time.monotonic() < deadline_s:
            if self._cancelled():
                raise InterruptedJobError(f"{name}: opening was given up")
            graph.ready.wait(_SLICE_S)
            if graph.chain is not None:
                sample = graph.chain.sink.try_pull_sample(int(_SLICE_S * 1e9))
                if sample is not None:
                    return sample
            if graph.failure is not None:
                raise graph.failure
            self._look_at_bus(graph)
            if self._error is not None:
                error, self._error = self._error, None
                raise self._explained(error)
            idle_looks = idle_looks + 1 if graph.chain is None and not live and graph.is_idle() else 0
            if idle_looks >= _IDLE_LOOKS or (graph.chain is not None and graph.chain.sink.is_eos()):
                raise InputError(f"{name}: no picture could be decoded", "is it a video, and complete?")
        if live:
            raise RetryLater(f"{name}: no picture within {OPEN_TIMEOUT_S:.0f} s",
                             "check that the camera is on and can be reached")
        raise InputError(f"{name}: no picture could be decoded within {OPEN_TIMEOUT_S:.0f} s")

    def _explained(self, error: EdgeError) -> EdgeError:
        """The error with what the network says, where a camera cannot be reached."""
        if self.input.kind == "rtsp" and isinstance(error, RetryLater) and not self._cancelled():
            why = why_unreachable(self.input.location)
            return RetryLater(f"{self.input.name}: {why}", error.remedy) if why else error
        return error

    def _pull(self, timeout_s: float) -> Any:
        assert self._graph.chain is not None
        sink, deadline_s = self._graph.chain.sink, time.monotonic() + timeout_s
        while True:
            left_s = deadline_s - time.monotonic()
            sample = sink.try_pull_sample(int(max(0.0, min(left_s, _SLICE_S)) * 1e9))
            self._look_at_bus(self._graph)
            now_s = time.monotonic()
            if sample is not None:
                self._last_arrival_s = now_s
                self._pulled += 1
                return sample
            if self._graph.failure is not None and self._error is None:
                self._error = self._graph.failure
            if sink.is_eos() or (self._error is not None and now_s - self._last_arrival_s > DRAIN_TIMEOUT_S):
                return self._end()
            self._check_stall(now_s)
            if left_s <= 0:
                return None

    def look_behind(self) -> int:
        """Bring `behind` up to date: what the sink was given, less what was taken and what may still wait in it."""
        if self.input.live and self._graph.chain is not None:
            sink = self._graph.chain.sink
            given = sink.get_property("stats").get_uint64("rendered")[1]
            self.behind = max(self.behind, given - self._pulled - MAX_WAITING)
        return self.behind

    def _end(self) -> None:
        self.ended = True
        if self._error is None and self.input.live:
            self._error = RetryLater(f"{self.input.name}: the stream ended", "check camera and network")
        if self._error is not None:
            if self.input.live:
                raise self._error if isinstance(self._error, RetryLater) else RetryLater(self._error.message,
                                                                                         self._error.remedy)
            self.ended_early = self._error.message
        elif self._graph.cut_off or (self._graph.only_stream
                                     and falls_short(self._buffers_end_ns / 1e9, self.info.duration_s)):
            self.ended_early = f"{self.input.name}: the file is cut off"
        else:
            self.complete = True

    def _check_stall(self, now_s: float) -> None:
        limit_s = self._settings.stall_timeout_s if self.input.live else FILE_STALL_TIMEOUT_S
        if now_s - self._last_arrival_s <= limit_s:
            return
        self.ended = True
        if self.input.live:
            raise RetryLater(f"{self.input.name}: no picture for {limit_s:.0f} s", "check camera and network")
        self.ended_early = f"{self.input.name}: the decoder gave nothing for {limit_s:.0f} s"

    def _look_at_bus(self, graph: ReadGraph) -> None:
        """Take all waiting messages; they would pile up otherwise."""
        kinds = load().Gst.MessageType
        while (message := graph.bus.timed_pop_filtered(0, kinds.ERROR | kinds.WARNING)) is not None:
            if message.type == kinds.ERROR:
                self._error = self._error or reading_error(message, self.input.name, self.input.live)
            elif graph.chain is not None and message.src == graph.chain.decoder:
                graph.damage.on_decoder_complaint()

    def _frame(self, caps: Any, buffer: Any, segment: Any) -> Frame:
        if hash(caps) != self._caps_id:
            self._on_caps(caps, buffer)
        assert self._format is not None
        moment, buffer_pts_ns = self._moment(buffer, segment)
        corrupted = bool(int(buffer.get_flags()) & self._flags.CORRUPTED)
        self._buffers_end_ns = buffer_pts_ns + moment.duration_ns
        damaged = self._graph.damage.judge(buffer_pts_ns, corrupted)
        picture, storage = wrap_buffer(buffer, self._format, self._frame_rate, self._must_copy,
                                       _OWNERS_AFTER_APPSINK)
        frame = Frame(self.input.name, self._epoch, self._index, picture, moment.pts_ns, moment.duration_ns, damaged,
                      storage, storage.release)
        self._index += 1
        return frame

    def _on_caps(self, caps: Any, buffer: Any) -> None:
        self._caps_id = hash(caps)
        self._caps = caps                                 # keeps the address, which is the identity, taken
        format_ = format_of(caps, self._graph.colorimetry)
        if self._format is not None and format_ != self._format:
            self._epoch += 1
        self._format, self._frame_rate = format_, frame_rate_of(caps)
        self._must_copy = pool_is_small(buffer)
        self._timeline.set_frame_rate(self._frame_rate)
        self._graph.damage.slack_ns = REORDER_FRAMES * self._timeline.nominal_duration_ns

    def _moment(self, buffer: Any, segment: Any) -> tuple[Moment, int]:
        """Where a picture lies on the source's time line, and its PTS among the decoder's buffers."""
        pts_ns, duration_ns = buffer.pts, buffer.duration
        if self._graph.encoded_times:
            pts_ns, duration_ns = self._graph.encoded_times.popleft()
        running_ns = CLOCK_TIME_NONE
        if pts_ns != CLOCK_TIME_NONE:
            running_ns = segment.to_running_time(load().Gst.Format.TIME, pts_ns)
        moment = self._timeline.place(_known(running_ns), _known(duration_ns))
        if moment.jumped:
            self._epoch += 1
        return moment, moment.pts_ns if pts_ns == CLOCK_TIME_NONE else pts_ns

    def _describe(self, sample: Any) -> SourceInfo:
        graph, caps = self._graph, sample.get_caps()
        assert graph.chain is not None
        format_, rate = format_of(caps, graph.colorimetry), frame_rate_of(caps)
        duration_ns = graph.duration_ns()
        duration_s = duration_ns / 1e9 if duration_ns else None
        frames = round(duration_s * rate) if duration_s and rate else None
        return SourceInfo(self.input.name, self.input.live, format_.stored_width_px, format_.stored_height_px, rate,
                          duration_s, frames, graph.codec, graph.chain.decoder_name, graph.rotation_deg,
                          graph.has_audio)


def open_source(spec: str, settings: SourceSettings, user: str | None = None, password: str | None = None) -> Source:
    """Open a file, ``rtsp://`` address or camera device and decode its first picture.

    user, password: for RTSP; take precedence over what the address holds. Raises InputError, RetryLater or
    UnavailableError, within 20 s.
    """
    opened = parse_spec(spec)
    if user is not None:
        opened = replace(opened, user=user, password=password or "")
    return Source(opened, settings)


def _known(time_ns: int) -> int | None:
    return None if time_ns == CLOCK_TIME_NONE else time_ns
