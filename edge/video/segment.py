"""One output file: encoder and fragmented MP4 into a `.part`, which is published when it is complete.

The muxer writes fragments that play without what follows them (`first-moov-then-finalise`) and turns the whole into an
ordinary MP4 at the end, so a finished file has one index and a cut-off one plays up to its last fragment.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from edge.errors import EdgeError, StorageError
from edge.settings import RecordSettings
from edge.storage import create_part, part_path, publish, storage_error
from edge.video.audio import AudioPlan, AudioTrack
from edge.video.encoders import KEY_FRAME_INTERVAL_S, LOOK_AHEAD_FRAMES, declared_rate, encode_chain
from edge.video.format import PictureFormat, encoder_caps
from edge.video.gst import link, load, make, poll_error, set_if_known, writing_error

WRITE_TIMEOUT_S = 60.0               # no room in the encoder's queue for this long: encoder or disk hangs
FINISH_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 5.0
_TIMESCALE = 90_000                  # ticks per second: exact for 24, 25, 30, 50, 60, 120 and their /1.001 kin
_QUEUED_FRAMES, _QUEUED_BYTES = 3, 16 << 20


@dataclass(frozen=True, slots=True)
class SegmentSpec:
    """What a segment is made of. base_ns: source time that becomes 0 in the file; start_ns: of its first frame.
    tags: GstTagList to write into the file, or None. comment: to write into it, or empty.
    look_ahead_frames: see `encode_chain`."""

    final: Path
    settings: RecordSettings
    encoder: str
    format: PictureFormat
    frame_rate: Fraction | None
    base_ns: int
    start_ns: int
    audio: AudioPlan | None = None
    tags: Any = None
    comment: str = ""
    look_ahead_frames: int = LOOK_AHEAD_FRAMES


class Segment:
    """An open output file. Used by one thread."""

    def __init__(self, spec: SegmentSpec) -> None:
        self._spec = spec
        self.frames = 0
        self._next_key_ns = 0
        self._hangs = False
        self._descriptor = create_part(spec.final, spec.settings.overwrite)
        self._syncer: _Syncer | None = None
        self._audio: AudioTrack | None = None
        self._pipeline: Any = None
        self._end_ns = spec.start_ns
        try:
            self._build(spec)
        except BaseException:
            self._stop()
            self._close_file()
            part_path(spec.final).unlink(missing_ok=True)
            raise

    def _build(self, spec: SegmentSpec) -> None:
        gst = load().Gst
        self._pipeline = gst.Pipeline.new(None)
        self._bus = self._pipeline.get_bus()
        frame_bytes = spec.format.stored_width_px * spec.format.stored_height_px * 3 // 2
        # At least one frame waits, whatever its size: the encoder must not.
        self._max_bytes = max(frame_bytes, min(_QUEUED_FRAMES * frame_bytes, _QUEUED_BYTES))
        rate = declared_rate(spec.encoder, spec.frame_rate)
        self._source = make("appsrc", caps=encoder_caps(spec.format, rate), format=gst.Format.TIME,
                            is_live=False, block=False, max_bytes=0, emit_signals=False)
        settings = spec.settings
        chain = encode_chain(spec.encoder, settings.quality, rate, frame_bytes * 2 // 3, settings.bitrate_kbps,
                             spec.look_ahead_frames)
        self._encoder = chain.encoder
        self._mux = make("mp4mux", fragment_duration=max(1, round(spec.settings.fragment_s * 1000)),
                         trak_timescale=_TIMESCALE, movie_timescale=_TIMESCALE)
        self._mux.set_property("fragment-mode", 1)                # first-moov-then-finalise, since 1.20
        if spec.tags is not None:
            self._mux.merge_tags(spec.tags, gst.TagMergeMode.REPLACE)
        if spec.comment:
            self._mux.add_tag_value(gst.TagMergeMode.REPLACE, gst.TAG_COMMENT, spec.comment)
        sink = make("fdsink", fd=self._descriptor, sync=False, enable_last_sample=False)
        set_if_known(sink, **{"async": False})
        elements = (self._source, *chain.elements, self._mux, sink)
        for element in elements:
            self._pipeline.add(element)
        link(*elements)
        if spec.audio is not None:
            self._audio = AudioTrack(self._pipeline, self._mux, spec.audio, spec.base_ns, spec.start_ns)
        self._pipeline.set_state(gst.State.PLAYING)
        self._syncer = _Syncer(self._descriptor, spec.settings.fragment_s)

    def write(self, buffer: Any, pts_ns: int, duration_ns: int) -> None:
        """Append a picture; the buffer belongs to the encoder from here on. Blocks while the encoder is behind.

        Raises StorageError on a full disk or failed write, EdgeError if encoding fails or hangs.
        """
        if not self.wait_for_room(WRITE_TIMEOUT_S):
            raise StorageError(f"{self._spec.final}: nothing could be written for {WRITE_TIMEOUT_S:.0f} s",
                               "check the disk")
        buffer.pts, buffer.dts, buffer.duration = pts_ns - self._spec.base_ns, pts_ns - self._spec.base_ns, duration_ns
        buffer.unset_flags(load().Gst.BufferFlags.DISCONT)
        if buffer.pts >= self._next_key_ns:
            if self.frames:
                self._ask_for_key_frame(buffer.pts)
            self._next_key_ns = buffer.pts + int(KEY_FRAME_INTERVAL_S * 1e9)
        if self._source.push_buffer(buffer) != load().Gst.FlowReturn.OK:
            self._raise_if_failed()
            raise EdgeError(f"{self._spec.final}: the encoder has stopped")
        self.frames += 1
        self._end_ns = pts_ns + duration_ns

    def finish(self, whole_audio: bool) -> Path:
        """Complete the file and publish it. Raises StorageError or EdgeError; the `.part` is kept then.

        whole_audio: keep what lasts longer than the pictures; else it ends with them.
        """
        try:
            self.complete(whole_audio)
            publish(part_path(self._spec.final), self._spec.final, self._spec.settings.overwrite)
        finally:
            self.close()
        return self._spec.final

    def complete(self, whole_audio: bool = False) -> None:
        """Write what the encoder holds and the index. The file stays open and locked, under its `.part` name; whoever
        calls this publishes it, or not, and calls `close`. Raises StorageError or EdgeError."""
        gst = load().Gst
        if self._audio is not None and not whole_audio:
            self._audio.end_at(self._end_ns)
        self._source.end_of_stream()
        wanted = gst.MessageType.ERROR | gst.MessageType.EOS
        message = self._bus.timed_pop_filtered(int(FINISH_TIMEOUT_S * 1e9), wanted)
        if message is None:
            raise EdgeError(f"{self._spec.final}: the encoder did not finish within {FINISH_TIMEOUT_S:.0f} s")
        if message.type == gst.MessageType.ERROR:
            raise writing_error(message, str(self._spec.final))
        self._stop()
        if self._syncer is not None and (error := self._syncer.last_error()) is not None:
            raise storage_error(self._spec.final, error)

    @property
    def descriptor(self) -> int:
        """Of the file, for reading, until `close`."""
        return self._descriptor

    @property
    def size_bytes(self) -> int:
        """What is in the file so far."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Let go of the file, and with it of its lock."""
        self._stop()
        self._close_file()

    def abandon(self) -> None:
        """Stop without finishing; what is on disk keeps its `.part` name. An empty `.part` is removed."""
        self._stop()
        empty = os.fstat(self._descriptor).st_size == 0
        self._close_file()
        if empty:
            part_path(self._spec.final).unlink(missing_ok=True)

    def wait_for_room(self, timeout_s: float) -> bool:
        """Whether the encoder takes a frame within this time. Raises as `write` does."""
        deadline_s = time.monotonic() + timeout_s
        self._raise_if_failed()
        while self._source.get_current_level_bytes() >= self._max_bytes:
            if time.monotonic() > deadline_s:
                return False
            self._raise_if_failed(timeout_ns=2_000_000)
        return True

    def _raise_if_failed(self, timeout_ns: int = 0) -> None:
        message = poll_error(self._bus, timeout_ns)
        if message is not None:
            raise writing_error(message, str(self._spec.final))
        if self._syncer is not None and self._syncer.error is not None:
            raise storage_error(self._spec.final, self._syncer.error)

    def _ask_for_key_frame(self, at_ns: int) -> None:
        event = load().GstVideo.video_event_new_upstream_force_key_unit(at_ns, True, 0)
        self._encoder.get_static_pad("src").send_event(event)

    def _stop(self) -> None:
        if self._syncer is not None:
            self._syncer.stop()
        if self._pipeline is None:
            return
        stopper = threading.Thread(target=self._pipeline.set_state, args=(load().Gst.State.NULL,), daemon=True)
        stopper.start()
        stopper.join(_STOP_TIMEOUT_S)
        self._hangs = stopper.is_alive()
        if self._audio is not None:
            self._audio.close()

    def _close_file(self) -> None:
        if self._hangs:         # a sink that still writes must not find another file under this number
            return
        with contextlib.suppress(OSError):
            os.close(self._descriptor)


class _Syncer:
    """Tells the kernel once per fragment to write what it holds, so that a power cut costs no more than that.

    error: of the disk. The kernel tells of data that it could not write once only, to whoever syncs first, and holds
    the data as written from then on (see fsync(2)): an error that went unheeded here would be lost.
    """

    def __init__(self, descriptor: int, interval_s: float) -> None:
        self._descriptor, self._interval_s = os.dup(descriptor), interval_s
        self.error: OSError | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                os.fdatasync(self._descriptor)
            except OSError as error:
                self.error = self.error or error
        os.close(self._descriptor)

    def stop(self) -> None:
        """End the thread; does not wait for a disk that hangs."""
        self._stopped.set()
        self._thread.join(_STOP_TIMEOUT_S)

    def last_error(self) -> OSError | None:
        """The error once all is over, after `stop`. Waits for a disk that hangs, as any sync after it would."""
        self._thread.join()
        return self.error
