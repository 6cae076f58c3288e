"""NV12 to H.264 or H.265: which encoder to take, and how it is set up.

Common to all: constant quality, no B-frames (presentation order is coding order, so PTS is DTS), a short look-ahead
(what it holds is lost on a power cut), key frames every two seconds.
"""

from __future__ import annotations

import functools
import itertools
import os
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from edge.errors import UnavailableError
from edge.settings import Codec
from edge.video.gst import exists, load, make, set_if_known

KEY_FRAME_INTERVAL_S = 2.0
LOOK_AHEAD_FRAMES = 10
# What an encoder holds is lost with the power: a camera loses a quarter of a second less so, at no cost in time.
LIVE_LOOK_AHEAD_FRAMES = 3
# x264 keeps a picture with its interpolated planes for each frame of look-ahead: measured 35 MB at 4K.
_LOOK_AHEAD_BYTES, _X264_BYTES_PER_PIXEL = 48 << 20, 4.2
_LARGE_PIXELS = 2560 * 1440              # from here on threads share a frame rather than hold one each
_MAX_KEY_INTERVAL_S = 10              # only a limit: key frames are asked for by time, which variable rates need
_PROBE_FRAMES = 10
_PROBE_TIMEOUT_S = 10
# best first; the reason to install follows from the first software one
_ENCODERS: dict[Codec, tuple[str, ...]] = {"h264": ("nvv4l2h264enc", "x264enc", "openh264enc"),
                                           "h265": ("nvv4l2h265enc", "x265enc")}
_PACKAGES: dict[Codec, str] = {"h264": "gstreamer1.0-plugins-ugly (x264enc)",
                               "h265": "gstreamer1.0-plugins-bad and libx265 (x265enc)"}


@dataclass(frozen=True, slots=True)
class EncodeChain:
    """Elements to add and link in order; the first takes NV12, the last gives what mp4mux takes."""

    elements: tuple[Any, ...]
    encoder: Any


@functools.lru_cache(maxsize=8)
def choose_encoder(codec: Codec) -> str:
    """The best encoder that works here. Raises UnavailableError if there is none."""
    for name in _ENCODERS[codec]:
        if exists(name) and (not _is_jetson(name) or works(name)):
            return name
    raise UnavailableError(f"no encoder for {codec}", f"install {_PACKAGES[codec]}")


def declared_rate(name: str, frame_rate: Fraction | None) -> Fraction | None:
    """The rate to put into an encoder's caps: only x264enc takes "variable"; the true times are the buffers' anyway."""
    return frame_rate if name == "x264enc" else frame_rate or Fraction(30)


def encode_chain(
    name: str, quality: float, frame_rate: Fraction | None, pixels: int, bitrate_kbps: int | None = None,
    look_ahead_frames: int = LOOK_AHEAD_FRAMES,
) -> EncodeChain:   # fmt: skip
    """The encoder `name` with what has to stand before and after it.

    quality: 0 to 51, as of x264's crf. bitrate_kbps: to aim at instead. look_ahead_frames: at most so many.
    """
    encoder = _configured(name, quality, frame_rate, pixels, look_ahead_frames)
    if bitrate_kbps is not None:
        _aim_at(encoder, name, bitrate_kbps)
    before = [] if name == "x264enc" else [make("videoconvert")]         # the others of the software ones want I420
    if _is_jetson(name):
        before = [make("nvvidconv"), _nvmm()]
    # x264enc gives what the muxer takes; a parser would replace durations by the nominal frame rate's.
    after = [] if name == "x264enc" else [make("h265parse" if "265" in name else "h264parse")]
    return EncodeChain((*before, encoder, *after), encoder)


def _configured(
    name: str, quality: float, frame_rate: Fraction | None, pixels: int, look_ahead_frames: int
) -> Any:
    encoder = make(name)
    threads = min(4, len(os.sched_getaffinity(0)))
    look_ahead_frames = min(look_ahead_frames, int(_LOOK_AHEAD_BYTES / (pixels * _X264_BYTES_PER_PIXEL)))
    limit_frames = max(1, round((frame_rate or 30) * _MAX_KEY_INTERVAL_S))
    crf = min(51, max(0, round(quality)))
    if name == "x264enc":
        encoder.set_property("pass", 5)                                  # constant quality: `quantizer` is the crf
        set_if_known(encoder, quantizer=min(crf, 50), bframes=0, rc_lookahead=look_ahead_frames, sync_lookahead=0,
                     key_int_max=limit_frames, threads=threads, sliced_threads=pixels >= _LARGE_PIXELS, qos=False,
                     vbv_buf_capacity=0)                                 # else `bitrate`, 2 Mbit/s, limits quality
        encoder.set_property("speed-preset", 3)                          # veryfast
    elif name == "x265enc":
        encoder.set_property("speed-preset", 2)                          # superfast, about x264's veryfast in time
        encoder.set_property("log-level", -1)
        set_if_known(encoder, key_int_max=limit_frames, qos=False)
        encoder.set_property("option-string", f"crf={crf}:bframes=0:rc-lookahead={look_ahead_frames}:"
                                              "pools=4:frame-threads=1")
    elif name == "openh264enc":
        set_if_known(encoder, rate_control=-1, qp_min=max(1, crf - 4), qp_max=min(51, crf + 6),
                     gop_size=limit_frames, multi_thread=threads, qos=False)
    else:                                                                # Jetson: constant QP, its own key frames
        rate = frame_rate or 30
        interval = max(1, round(rate * Fraction(KEY_FRAME_INTERVAL_S)))
        set_if_known(encoder, control_rate=0, ratecontrol_enable=False, insert_sps_pps=True, insert_vui=True,
                     iframeinterval=interval, idrinterval=interval, num_B_Frames=0, maxperf_enable=True,
                     quant_i_frames=crf, quant_p_frames=crf)
    return encoder


def _aim_at(encoder: Any, name: str, bitrate_kbps: int) -> None:
    """A mean bit rate, with a buffer of two seconds for what moves more, in place of the constant quality."""
    if name == "x264enc":
        encoder.set_property("pass", 0)                                  # cbr: bounded by the buffer, not padded
        set_if_known(encoder, bitrate=bitrate_kbps, vbv_buf_capacity=2000)
    elif name == "x265enc":
        options = encoder.get_property("option-string").partition(":")[2]       # without the crf
        rates = f"vbv-maxrate={bitrate_kbps}:vbv-bufsize={2 * bitrate_kbps}"
        encoder.set_property("option-string", f"{options}:bitrate={bitrate_kbps}:{rates}")
        set_if_known(encoder, bitrate=bitrate_kbps)
    elif name == "openh264enc":
        set_if_known(encoder, rate_control=1, bitrate=bitrate_kbps * 1000, max_bitrate=bitrate_kbps * 1500,
                     qp_min=1, qp_max=51)
    else:
        set_if_known(encoder, control_rate=1, ratecontrol_enable=True, bitrate=bitrate_kbps * 1000)


def works(name: str) -> bool:
    """Encode ten small pictures: an element in the registry may lack its device, or all sessions may be taken."""
    gst = load().Gst
    chain = encode_chain(name, 28, Fraction(30), 640 * 360)
    source = make("videotestsrc", num_buffers=_PROBE_FRAMES)
    caps = make("capsfilter", caps=gst.Caps.from_string("video/x-raw,format=NV12,width=640,height=360,framerate=30/1"))
    sink = make("fakesink", sync=False)
    pipeline = gst.Pipeline.new(None)
    elements = (source, caps, *chain.elements, sink)
    for element in elements:
        pipeline.add(element)
    if not all(left.link(right) for left, right in itertools.pairwise(elements)):
        return False
    pipeline.set_state(gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(_PROBE_TIMEOUT_S * gst.SECOND,
                                                    gst.MessageType.ERROR | gst.MessageType.EOS)
    pipeline.set_state(gst.State.NULL)
    return message is not None and message.type == gst.MessageType.EOS


def _nvmm() -> Any:
    return make("capsfilter", caps=load().Gst.Caps.from_string("video/x-raw(memory:NVMM),format=NV12"))


def _is_jetson(element: str) -> bool:
    return element.startswith("nvv4l2")
