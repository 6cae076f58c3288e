"""The GStreamer pipeline that reads one input: source, demuxer and parser, the chosen stream, decoder, appsink."""

from __future__ import annotations

import threading
from collections import deque
from fractions import Fraction
from pathlib import Path
from typing import Any

from edge.cameras import CsiSource, CustomSource, V4l2Source
from edge.errors import EdgeError, InputError, UnavailableError
from edge.settings import SourceSettings
from edge.video.audio import AudioStream
from edge.video.completeness import is_cut_off
from edge.video.csi import csi_elements
from edge.video.custom import custom_elements
from edge.video.damage import DamageTracker
from edge.video.decoders import DecodeChain, candidates, decode_chain
from edge.video.gif import Gif, is_gif, split_gif
from edge.video.gst import CLOCK_TIME_NONE, Callbacks, link, load, make, make_file_source, on_libav_error
from edge.video.inputs import Input
from edge.video.streams import area_of, codec_of, contains, descriptive_tags, elements_of, kind_of, rotation_of
from edge.video.v4l2 import v4l2_elements

_CLOSE_TIMEOUT_S = 5.0
_RTSP_TIMEOUT_US = 5_000_000
_JITTER_MS = 200
_LOSSY_CONTAINERS = ("tsdemux",)          # a gap in other containers is no loss: matroskademux marks some anyway


class ReadGraph:
    """A running pipeline. `failure` is set by its threads when the stream cannot be decoded at all.

    attempt: which of the decoders that fit is used, from 0.
    """

    def __init__(self, opened: Input, settings: SourceSettings, attempt: int) -> None:
        gst = load().Gst
        self._input, self._attempt = opened, attempt
        self.pipeline = gst.Pipeline.new(None)
        self.bus = self.pipeline.get_bus()
        self.chain: DecodeChain | None = None
        self.failure: EdgeError | None = None
        self.ready = threading.Event()             # chain or failure is set
        self.more_decoders = False
        self.codec, self.rotation_deg, self.has_audio = "", 0, False
        self.audio: AudioStream | None = None      # of a file
        self.damage = DamageTracker()
        self.encoded_times: deque[tuple[int, int]] | None = None     # where the decoder loses them
        self.tags: Any = None                      # see `descriptive_tags`
        self.colorimetry = ""                      # as the container has it; the coded stream's own takes precedence
        self.only_stream = False                   # the container's duration is that of the pictures
        self.cut_off = False                       # the file ends before its content does
        self._lossy = opened.live
        self._gif: Gif | None = None
        self._lock = threading.Lock()
        self._pads: list[Any] = []
        self._holds: list[tuple[Any, int]] = []
        self._parsers: list[Any] = []
        self._callbacks = Callbacks()
        self._unwatch = on_libav_error(self.damage.on_decoder_complaint)
        try:
            self._add_source(settings)
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Start all elements; failures arrive on the bus."""
        self.pipeline.set_state(load().Gst.State.PLAYING)
        if self._gif is not None:
            self._push_gif(self._gif)

    def close(self) -> bool:
        """Stop everything. False when it hangs (a driver?): it is left behind after 5 s, in a thread that ends with
        the process."""
        self._unwatch()
        stopper = threading.Thread(target=self.pipeline.set_state, args=(load().Gst.State.NULL,), daemon=True)
        stopper.start()
        stopper.join(_CLOSE_TIMEOUT_S)
        self._callbacks.remove()
        holds, self._holds = self._holds, []       # without the lock: a thread that hangs may have it
        for pad, number in holds:                  # of streams from which nothing came
            pad.remove_probe(number)
        return not stopper.is_alive()

    def is_idle(self) -> bool:
        """Whether no streaming thread runs: nothing will come any more.

        parsebin swallows the error of a demuxer that fails while it is being plugged in (seen with 1.22).
        """
        started = load().Gst.TaskState.STARTED
        pads = (pad for element in elements_of(self.pipeline) for pad in element.pads)
        return not any(pad.get_task_state() == started for pad in pads)

    def _add_source(self, settings: SourceSettings) -> None:
        if self._input.kind == "rtsp":
            source = make("rtspsrc", location=self._input.location, latency=_JITTER_MS,
                          tcp_timeout=_RTSP_TIMEOUT_US, timeout=_RTSP_TIMEOUT_US)
            source.set_property("protocols", 4 if settings.transport == "tcp" else 1)
            if self._input.user:
                source.set_property("user-id", self._input.user)
                source.set_property("user-pw", self._input.password)
            self.pipeline.add(source)
            self._callbacks.connect(source, "select-stream", self._on_select_stream)
            self._callbacks.connect(source, "pad-added", self._on_rtp_pad)
            return
        if self._input.kind == "file" and is_gif(Path(self._input.location)):
            self._add_gif(split_gif(Path(self._input.location)))
            return
        camera = self._input.camera
        if isinstance(camera, CustomSource):
            last, parser = custom_elements(camera.description, self.pipeline, self._callbacks), self._make_parser()
            self.pipeline.add(parser)
            link(last, parser)
            return
        if isinstance(camera, V4l2Source):
            elements = [*v4l2_elements(camera), self._make_parser()]
        elif isinstance(camera, CsiSource):
            elements = [*csi_elements(camera), self._make_parser()]
        else:
            self.cut_off = is_cut_off(Path(self._input.location))
            elements = [make_file_source(self._input.location), self._make_parser()]
        for element in elements:
            self.pipeline.add(element)
        link(*elements)

    def _add_gif(self, gif: Gif) -> None:
        """The whole file goes into an appsrc at once; it is as large as the file."""
        self._gif, self.cut_off = gif, not gif.complete
        rate = Fraction(len(gif.packets) * 1_000_000_000, gif.duration_ns).limit_denominator(1001)
        caps = load().Gst.Caps.from_string(
            f"image/gst-libav-gif,width={gif.width_px},height={gif.height_px},parsed=true,"
            f"framerate={rate.numerator}/{rate.denominator}")
        self._gif_source = make("appsrc", caps=caps, format=load().Gst.Format.TIME, max_bytes=0, emit_signals=False)
        self.pipeline.add(self._gif_source)
        self._build_chain(self._gif_source.get_static_pad("src"), caps)

    def _push_gif(self, gif: Gif) -> None:
        # avdec_gif gives every picture PTS 0; GIF has no reordering, so times go round the decoder.
        self.encoded_times = deque((packet.pts_ns, packet.duration_ns) for packet in gif.packets)
        for packet in gif.packets:
            buffer = load().Gst.Buffer.new_wrapped(packet.data)
            buffer.pts, buffer.duration = packet.pts_ns, packet.duration_ns
            self._gif_source.push_buffer(buffer)
        self._gif_source.end_of_stream()

    def duration_ns(self) -> int | None:
        """Of the whole source; None where unknown."""
        if self._gif is not None:
            return self._gif.duration_ns
        if self._input.live:
            return None
        known, duration_ns = self.pipeline.query_duration(load().Gst.Format.TIME)
        return int(duration_ns) if known and 0 < duration_ns < CLOCK_TIME_NONE else None

    def _make_parser(self) -> Any:
        parser = make("parsebin")
        self._callbacks.connect(parser, "pad-added", self._on_pad)
        self._parsers.append(parser)
        return parser

    def _on_select_stream(self, _: Any, number: int, caps: Any) -> bool:
        del number
        structure = caps.get_structure(0)
        media = structure.get_string("media")
        self.has_audio = self.has_audio or media == "audio"
        return bool(media == "video")

    def _on_rtp_pad(self, _: Any, pad: Any) -> None:
        if self._parsers:
            return                                              # a second video stream in one session
        try:
            parser = self._make_parser()
            self.pipeline.add(parser)
            pad.link(parser.get_static_pad("sink"))
            parser.sync_state_with_parent()
        except EdgeError as error:
            self._fail(error)

    def _on_pad(self, _: Any, pad: Any) -> None:
        """parsebin exposes all streams in one go before any of them flows; the first buffer ends the collecting."""
        gst = load().Gst
        with self._lock:
            self._pads.append(pad)
        number = pad.add_probe(gst.PadProbeType.BLOCK | gst.PadProbeType.BUFFER, self._on_first_buffer)
        with self._lock:
            self._holds.append((pad, number))

    def _on_first_buffer(self, flowing: Any, _: Any) -> Any:
        with self._lock:
            self._holds = [(pad, number) for pad, number in self._holds if pad != flowing]
            pads, self._pads = self._pads, []
            if pads:
                try:
                    self._choose(pads)
                except EdgeError as error:
                    self._fail(error)
                except Exception as error:              # nothing may be raised into a C thread
                    self._fail(EdgeError(f"{self._input.name}: {error}"))
        return load().Gst.PadProbeReturn.REMOVE

    def _choose(self, pads: list[Any]) -> None:
        """Link one video stream to the decoder. What stays unlinked is refused downstream; demuxers skip it then."""
        streams = [(pad, pad.get_current_caps() or pad.query_caps(None)) for pad in pads]
        self.only_stream = len(streams) == 1
        kinds = [kind_of(caps) for _, caps in streams]
        if "audio" in kinds and self.audio is None:
            self.has_audio = True
            self.audio = AudioStream(self._input.location, streams[kinds.index("audio")][1])
        videos = [stream for stream, kind in zip(streams, kinds, strict=True) if kind in ("video", "image")]
        if not videos:
            raise InputError(f"{self._input.name}: holds no video")
        pad, caps = max(videos, key=lambda stream: area_of(stream[1]))      # the first of equals, as ffmpeg has it
        if self.chain is None:
            self._build_chain(pad, caps)
        elif not self.chain.entry.is_linked():
            pad.link(self.chain.entry)

    def _build_chain(self, pad: Any, caps: Any) -> None:
        self.codec = codec_of(caps)
        decoders = ("identity",) if self.codec == "raw" else candidates(caps)
        if self._attempt >= len(decoders):
            raise UnavailableError(f"{self._input.name}: no decoder for {self.codec}",
                                   "install gstreamer1.0-libav and gstreamer1.0-plugins-bad")
        self.more_decoders = self._attempt + 1 < len(decoders)
        self.rotation_deg, self.tags = rotation_of(pad), descriptive_tags(pad)
        self._lossy = self._lossy or any(contains(parser, _LOSSY_CONTAINERS) for parser in self._parsers)
        chain = decode_chain(self.pipeline, decoders[self._attempt], self._input.live)
        gst = load().Gst
        self._callbacks.probe(chain.entry, gst.PadProbeType.BUFFER, self._on_encoded)
        if decoders[self._attempt].startswith("avdec_"):
            self._callbacks.probe(chain.entry, gst.PadProbeType.EVENT_DOWNSTREAM, self._on_encoded_event)
        for element in reversed(chain.elements):
            element.sync_state_with_parent()
        if pad.link(chain.entry) != gst.PadLinkReturn.OK:
            raise EdgeError(f"{self._input.name}: {chain.decoder_name} refuses the stream")
        self.chain = chain
        self.ready.set()

    def _on_encoded(self, _: Any, info: Any) -> Any:
        gst = load().Gst
        buffer = info.get_buffer()
        flags, pts = int(buffer.get_flags()), buffer.pts
        self.damage.on_encoded(None if pts == CLOCK_TIME_NONE else pts, not flags & gst.BufferFlags.DELTA_UNIT,
                               self._lossy and bool(flags & gst.BufferFlags.DISCONT),
                               bool(flags & gst.BufferFlags.CORRUPTED))
        return gst.PadProbeReturn.OK

    def _on_encoded_event(self, pad: Any, info: Any) -> Any:
        """Take the container's colorimetry out of the caps: libav's elements would put it above the stream's own,
        and a container that says "bt709" does not say whether the range is full."""
        gst = load().Gst
        event = info.get_event()
        if event.type != gst.EventType.CAPS:
            return gst.PadProbeReturn.OK
        structure = event.parse_caps().get_structure(0).copy()
        if not structure.has_field("colorimetry"):
            return gst.PadProbeReturn.OK
        self.colorimetry = structure.get_string("colorimetry") or ""
        structure.remove_field("colorimetry")
        caps = gst.Caps.new_empty()
        caps.append_structure(structure)
        pad.send_event(gst.Event.new_caps(caps))
        return gst.PadProbeReturn.DROP

    def _fail(self, error: EdgeError) -> None:
        self.failure = self.failure or error
        self.ready.set()
