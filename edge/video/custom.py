"""A source that the user describes as a GStreamer pipeline, out of elements that can do no harm.

The text is not given to GStreamer's own parser, which makes any element that it finds: it is read here, as a chain
``element property=value ... ! caps ! element``, and only what the table allows is ever made.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edge.errors import ConfigError
from edge.video.gst import Callbacks, link, load, make
from edge.video.streams import kind_of

_RAW_SIZE = frozenset({"method", "add-borders", "n-threads", "qos"})
_NETWORK = frozenset({"timeout", "buffer-size", "do-timestamp", "blocksize"})
# Element -> properties that may be set. No element that writes, listens for connections, runs programs or loads others;
# of properties only those that set up what the element is for.
ALLOWED: dict[str, frozenset[str]] = {
    # sources
    "videotestsrc": frozenset({"pattern", "is-live", "num-buffers", "motion", "horizontal-speed", "do-timestamp"}),
    "v4l2src": frozenset({"device", "io-mode", "do-timestamp", "brightness", "contrast", "saturation", "hue", "norm"}),
    "nvv4l2camerasrc": frozenset({"device", "do-timestamp", "bufapi-version"}),
    "nvarguscamerasrc": frozenset({"sensor-id", "sensor-mode", "wbmode", "exposuretimerange", "gainrange",
                                   "ispdigitalgainrange", "aeantibanding", "exposurecompensation", "tnr-mode",
                                   "tnr-strength", "ee-mode", "ee-strength", "saturation", "do-timestamp"}),
    "libcamerasrc": frozenset({"camera-name", "auto-focus-mode"}),
    "udpsrc": _NETWORK | {"address", "port", "caps", "multicast-iface", "auto-multicast", "uri", "reuse"},
    "tcpclientsrc": _NETWORK | {"host", "port"},
    "souphttpsrc": _NETWORK | {"location", "is-live", "user-agent", "ssl-strict"},
    # demuxers and depayloaders
    **dict.fromkeys(("tsdemux", "qtdemux", "matroskademux", "flvdemux", "avidemux", "rtpptdemux"), frozenset()),
    "multipartdemux": frozenset({"boundary", "single-stream"}),
    **dict.fromkeys(("rtph264depay", "rtph265depay", "rtpjpegdepay", "rtpvp8depay", "rtpvp9depay", "rtpmp4vdepay",
                     "rtpmp2tdepay", "rtpvrawdepay", "rtpav1depay"), frozenset({"wait-for-keyframe"})),
    "rtpjitterbuffer": frozenset({"latency", "drop-on-latency", "mode"}),
    # parsers
    **dict.fromkeys(("h264parse", "h265parse", "jpegparse", "vp8parse", "vp9parse", "av1parse", "mpegvideoparse",
                     "mpeg4videoparse", "tsparse"), frozenset({"config-interval"})),
    "rawvideoparse": frozenset({"width", "height", "format", "framerate"}),
    # converters
    "videoconvert": frozenset({"n-threads", "qos"}), "videoscale": _RAW_SIZE, "nvvidconv": frozenset(
        {"flip-method", "left", "right", "top", "bottom", "interpolation-method"}),
    "videorate": frozenset({"drop-only", "max-rate", "skip-to-first"}),
    "videocrop": frozenset({"left", "right", "top", "bottom"}),
    "videoflip": frozenset({"method", "video-direction"}),
    "bayer2rgb": frozenset(), "videobalance": frozenset({"brightness", "contrast", "saturation", "hue"}),
    "queue": frozenset({"max-size-buffers", "max-size-bytes", "max-size-time", "leaky"}),
    "identity": frozenset({"sync"}),
    "capsfilter": frozenset({"caps"}),
}
MAX_CHARS, MAX_ELEMENTS = 4000, 40
_CAPS = re.compile(r"(video|image|application|multipart)/[A-Za-z0-9.+-]+(\(memory:[A-Za-z]+\))?(,.*)?", re.DOTALL)
# A live stream over the network only: no files, no other machines' files.
_ADDRESSES = {"souphttpsrc": ("http://", "https://"), "udpsrc": ("udp://",)}
_DEVICES = re.compile(r"/dev/(video\d+|v4l/by-(id|path)/[A-Za-z0-9_.:+-]+)")


@dataclass(frozen=True, slots=True)
class Part:
    """One element of a chain. properties: name and value as text."""

    element: str
    properties: tuple[tuple[str, str], ...]


def parse_custom(description: str) -> tuple[Part, ...]:
    """Read a description. Raises ConfigError: not understood, or an element or property that is not allowed."""
    if len(description) > MAX_CHARS:
        raise ConfigError(f"the custom source is longer than {MAX_CHARS} characters")
    if not description.isprintable():
        raise ConfigError("the custom source holds control characters", "write it on one line")
    try:
        words = shlex.split(description, posix=True)
    except ValueError as error:
        raise ConfigError(f"the custom source cannot be read ({error})", "check its quotes") from None
    parts = [_part(words_of_one) for words_of_one in _split(words)]
    if len(parts) > MAX_ELEMENTS:
        raise ConfigError(f"the custom source has more than {MAX_ELEMENTS} elements")
    return tuple(parts)


def _split(words: list[str]) -> list[list[str]]:
    chain: list[list[str]] = [[]]
    for word in words:
        if word == "!":
            chain.append([])
        else:
            chain[-1].append(word)
    if not all(chain):
        raise ConfigError("the custom source has an empty place", 'write "element ! element"')
    return chain


def _part(words: list[str]) -> Part:
    name, settings = words[0], words[1:]
    if "/" in name:
        caps = " ".join(words)
        if not _CAPS.fullmatch(caps):
            raise ConfigError(f"the custom source: {name} are no caps of video")
        return Part("capsfilter", (("caps", caps),))
    if name not in ALLOWED:
        raise ConfigError(f"the custom source: element {name} is not allowed",
                          "docs/configuration.md has those that are")
    return Part(name, tuple(_property(name, text) for text in settings))


def _property(element: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"the custom source: {element} {name}: not understood", "write property=value")
    if name not in ALLOWED[element]:
        raise ConfigError(f"the custom source: {element} may not have its {name} set here")
    if name == "device" and not _DEVICES.fullmatch(value):
        raise ConfigError(f"the custom source: {element} {name} is not a camera", "give /dev/video*, /dev/v4l/by-id/*")
    schemes = _ADDRESSES.get(element, ())
    if name in ("location", "uri") and (not value.startswith(schemes) or "@" in value.split("/")[2]):
        raise ConfigError(f"the custom source: {element} {name} is not allowed",
                          f"it starts with {' or '.join(schemes)} and holds no user or password")
    return name, value


def custom_elements(description: str, pipeline: Any, callbacks: Callbacks) -> Any:
    """Add the described chain to `pipeline`; gives its last element. Raises ConfigError, UnavailableError."""
    last: Any = None
    for part in parse_custom(description):
        element = make(part.element)
        for name, value in part.properties:
            if element.find_property(name) is None:
                raise ConfigError(f"the custom source: {part.element} has no {name} in this version of GStreamer")
            load().Gst.util_set_object_arg(element, name, value)
        pipeline.add(element)
        if last is not None and last.get_static_pad("src") is None:
            callbacks.connect(last, "pad-added", _linker(element))
        elif last is not None:
            link(last, element)
        last = element
    if last.get_static_pad("src") is None:
        raise ConfigError("the custom source ends in a demuxer", "add a parser, as in \"tsdemux ! h264parse\"")
    return last


def _linker(following: Any) -> Callable[[Any, Any], None]:
    """Link the first video stream of a demuxer."""
    entry = following.get_static_pad("sink")

    def on_pad(_: Any, pad: Any) -> None:
        if not entry.is_linked() and kind_of(pad.get_current_caps() or pad.query_caps(None)) in ("video", "image"):
            pad.link(entry)

    return on_pad
