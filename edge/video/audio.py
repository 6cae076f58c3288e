"""The audio of an input file into a segment: copied packet by packet, or turned into AAC where MP4 cannot carry it.

A second reader of the same file feeds the segment's muxer. The demuxer gives both readers the same time line, so sound
stays with the picture without any clock in between.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from edge.video.gst import CLOCK_TIME_NONE, Callbacks, exists, link, load, make, make_file_source, set_if_known

_AAC_ENCODERS = ("fdkaacenc", "avenc_aac", "voaacenc", "faac")
_BITS_PER_S = 128_000


@dataclass(frozen=True)
class AudioStream:
    """The first audio stream of a file. location: the file. caps: of its parsed packets."""

    location: str
    caps: Any


@dataclass(frozen=True, slots=True)
class AudioPlan:
    """How a stream gets into an MP4: names of the elements between demuxer and muxer; empty copies packets."""

    stream: AudioStream
    elements: tuple[str, ...]


def plan_audio(stream: AudioStream) -> AudioPlan | None:
    """Copy if MP4 can carry it, else transcode to AAC, else None (no decoder or no encoder here)."""
    structure = stream.caps.get_structure(0)
    name = structure.get_name()
    if name == "audio/mpeg" and structure.get_int("mpegversion")[1] in (2, 4):
        return AudioPlan(stream, ("aacparse",))            # ADTS, as in transport streams, to raw packets
    accepted = make("mp4mux").get_pad_template("audio_%u").get_caps()
    if stream.caps.can_intersect(accepted):
        return AudioPlan(stream, ())
    decoder = () if name == "audio/x-raw" else _decoders(stream.caps)[:1]
    encoder = next((each for each in _AAC_ENCODERS if exists(each)), None)
    if encoder is None or (not decoder and name != "audio/x-raw"):
        return None
    return AudioPlan(stream, (*decoder, "audioconvert", "audioresample", encoder, "aacparse"))


class AudioTrack:
    """Feeds one muxer.

    base_ns: source time that is 0 in the file. start_ns: packets that start before it are left out.
    """

    def __init__(self, pipeline: Any, mux: Any, plan: AudioPlan, base_ns: int, start_ns: int) -> None:
        gst = load().Gst
        self._start_ns, self._end_ns = start_ns, CLOCK_TIME_NONE
        self._lock = threading.Lock()
        self._linked = False
        self._ended = False
        source, parser = make_file_source(plan.stream.location), make("parsebin")
        self._queue = make("queue", max_size_time=2 * gst.SECOND, max_size_buffers=0, max_size_bytes=4 << 20)
        between = [make(each) for each in plan.elements]
        for element in between:
            if element.get_factory().get_name() in _AAC_ENCODERS:
                set_if_known(element, bitrate=_BITS_PER_S)
        for element in (source, parser, self._queue, *between):
            pipeline.add(element)
        link(source, parser)
        link(self._queue, *between)
        last = (between or [self._queue])[-1].get_static_pad("src")
        target = mux.request_pad_simple("audio_%u")
        last.link(target)
        last.set_offset(-base_ns)
        self._gate = self._queue.get_static_pad("src")
        self._callbacks = Callbacks()
        self._callbacks.probe(self._gate, gst.PadProbeType.BUFFER, self._on_buffer)
        self._callbacks.connect(parser, "pad-added", self._on_pad)

    def close(self) -> None:
        """Let go of the pipeline, which has stopped."""
        self._callbacks.remove()

    def end_at(self, end_ns: int) -> None:
        """Leave out what starts at `end_ns` of the source's time or later."""
        self._end_ns = end_ns

    def _on_pad(self, _: Any, pad: Any) -> None:
        with self._lock:
            caps = pad.get_current_caps() or pad.query_caps(None)
            if not self._linked and caps.get_structure(0).get_name().startswith("audio/"):
                self._linked = True
                pad.link(self._queue.get_static_pad("sink"))

    def _on_buffer(self, pad: Any, info: Any) -> Any:
        gst = load().Gst
        buffer = info.get_buffer()
        segment = pad.get_sticky_event(gst.EventType.SEGMENT, 0)
        at_ns = segment.parse_segment().to_running_time(gst.Format.TIME, buffer.pts) if segment else buffer.pts
        if at_ns == CLOCK_TIME_NONE or at_ns < self._start_ns:
            return gst.PadProbeReturn.DROP
        if at_ns < self._end_ns:
            return gst.PadProbeReturn.OK
        if not self._ended:
            self._ended = True
            pad.push_event(gst.Event.new_eos())
        return gst.PadProbeReturn.DROP


def _decoders(caps: Any) -> tuple[str, ...]:
    gst = load().Gst
    kinds = gst.ELEMENT_FACTORY_TYPE_DECODER | gst.ELEMENT_FACTORY_TYPE_MEDIA_AUDIO
    found = gst.ElementFactory.list_get_elements(kinds, gst.Rank.MARGINAL)
    fitting = gst.ElementFactory.list_filter(found, caps, gst.PadDirection.SINK, False)
    fitting.sort(key=lambda factory: -factory.get_rank())
    return tuple(factory.get_name() for factory in fitting)
