"""GStreamer as this package uses it: bindings, quiet start-up, elements by name, and bus messages turned into errors.

The only module that imports ``gi``. Import it in the worker process, not in the command line.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

from edge.errors import EdgeError, InputError, RetryLater, StorageError, UnavailableError

DEBIAN_PACKAGES = {                       # element -> package of Debian and Ubuntu that carries it
    "appsrc": "gstreamer1.0-plugins-base", "appsink": "gstreamer1.0-plugins-base",
    "parsebin": "gstreamer1.0-plugins-base", "videoconvert": "gstreamer1.0-plugins-base",
    "audioconvert": "gstreamer1.0-plugins-base", "audioresample": "gstreamer1.0-plugins-base",
    "deinterlace": "gstreamer1.0-plugins-good", "videoflip": "gstreamer1.0-plugins-good",
    "mp4mux": "gstreamer1.0-plugins-good", "qtdemux": "gstreamer1.0-plugins-good",
    "rtspsrc": "gstreamer1.0-plugins-good", "v4l2src": "gstreamer1.0-plugins-good",
    "jpegdec": "gstreamer1.0-plugins-good",
    "h264parse": "gstreamer1.0-plugins-bad", "h265parse": "gstreamer1.0-plugins-bad",
    "x265enc": "gstreamer1.0-plugins-bad", "openh264enc": "gstreamer1.0-plugins-bad",
    "x264enc": "gstreamer1.0-plugins-ugly", "avdec_h264": "gstreamer1.0-libav",
}
CLOCK_TIME_NONE = 2**64 - 1
# What GStreamer gives us, in whichever thread. PyGObject makes the class of a C type when it first meets one, without
# a lock: a second thread may find it without its methods.
_MET_IN_THREADS = (
    "Bin", "Buffer", "BufferFlags", "BufferPool", "Bus", "Caps", "CapsFeatures", "Context", "CoreError", "DateTime",
    "DebugCategory", "DebugMessage", "Element", "ElementFactory", "Event", "EventType", "FlowReturn", "GhostPad",
    "Iterator", "IteratorResult", "MapInfo", "Memory", "Message", "MessageType", "Object", "Pad", "PadDirection",
    "PadLinkReturn", "PadProbeInfo", "PadProbeReturn", "PadProbeType", "PadTemplate", "Pipeline", "PluginFeature",
    "Promise", "Query", "ResourceError", "Sample", "Segment", "State", "StateChangeReturn", "StreamError", "Structure",
    "TagList", "TagMergeMode", "TaskState",
)  # fmt: skip


@dataclass(frozen=True)
class Bindings:
    """The namespaces of PyGObject in use, which carry no type information, and who listens to libav's log."""

    Gst: Any
    GstApp: Any
    GstVideo: Any
    GLib: Any
    libav_listeners: list[Callable[[], None]]


_loading = threading.Lock()


def load() -> Bindings:
    """Initialise GStreamer once per process and give its namespaces; from any thread.

    Raises UnavailableError without PyGObject, its type libraries or the libraries themselves.
    """
    with _loading:          # PyGObject's modules are not whole yet when a second thread finds them
        return _load()


@functools.cache
def _load() -> Bindings:
    quiet = "GST_DEBUG" not in os.environ
    # GStreamer loads libunwind, which has functions of the same names as libgcc's. Where it comes first, a C++
    # exception that crosses both ends the process: on Ubuntu 22.04 libproxy throws one when rtspsrc connects.
    with contextlib.suppress(OSError):
        ctypes.CDLL("libgcc_s.so.1", ctypes.RTLD_GLOBAL)
    try:
        import gi

        for name in ("Gst", "GstApp", "GstVideo"):
            gi.require_version(name, "1.0")
        from gi.repository import GLib, Gst, GstApp, GstVideo
    except (ImportError, ValueError) as error:
        raise UnavailableError(
            f"GStreamer's Python bindings are missing ({error})",
            "install python3-gi, gir1.2-gstreamer-1.0 and gir1.2-gst-plugins-base-1.0, and make the virtual "
            "environment with --system-site-packages from the system's python3") from None
    ok, _ = Gst.init_check(None)
    if not ok:
        raise UnavailableError("GStreamer does not start", "run gst-inspect-1.0 to see why")
    for name in _MET_IN_THREADS:
        vars(getattr(Gst, name))
    for name in ("VideoInfo", "VideoMeta", "VideoCropMeta", "VideoFormat"):
        vars(getattr(GstVideo, name))
    if quiet:                             # what the libraries would print reaches users as bus messages
        Gst.debug_remove_log_function(None)
        for domain in ("GStreamer", "GStreamer-Video", "GLib-GObject"):
            GLib.log_set_handler(domain, GLib.LogLevelFlags.LEVEL_MASK, lambda *_: None, None)
    listeners: list[Callable[[], None]] = []
    _watch_libav(Gst, listeners)
    return Bindings(Gst, GstApp, GstVideo, GLib, listeners)


def _watch_libav(gst: Any, listeners: list[Callable[[], None]]) -> None:
    def on_log(category: Any, *_: object) -> None:
        if category.get_name() == "libav":
            for listener in tuple(listeners):
                listener()

    if not gst.debug_is_active():
        gst.debug_set_active(True)
    gst.debug_set_threshold_for_name("libav", gst.DebugLevel.ERROR)
    gst.debug_add_log_function(on_log, None)


def on_libav_error(callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback` from a decoder's thread whenever libav complains about data; gives a function that ends this.

    libav conceals errors and hands the picture out as good (its element sets no flag); its log is the only sign, and
    it does not say which decoder it was.
    """
    listeners = load().libav_listeners
    listeners.append(callback)
    return lambda: listeners.remove(callback) if callback in listeners else None


def exists(element: str) -> bool:
    """Whether the registry knows this element; it may still fail to work."""
    return load().Gst.ElementFactory.find(element) is not None


def make(element: str, **properties: object) -> Any:
    """Make an element; properties use underscores. Raises UnavailableError naming the package to install."""
    made = load().Gst.ElementFactory.make(element, None)
    if made is None:
        package = DEBIAN_PACKAGES.get(element, "gstreamer1.0-plugins-bad and gstreamer1.0-libav")
        raise UnavailableError(f"GStreamer's element {element} is missing", f"install {package}")
    for name, value in properties.items():
        made.set_property(name.replace("_", "-"), value)
    return made


def make_file_source(path: str) -> Any:
    """A filesrc for any name that Linux allows: a property takes UTF-8 only, an address takes every byte."""
    source = make("filesrc")
    source.set_uri("file://" + quote_from_bytes(os.fsencode(Path(path).absolute())))
    return source


def set_if_known(element: Any, **properties: object) -> None:
    """Set those properties that this version of the element has."""
    for name, value in properties.items():
        if element.find_property(name.replace("_", "-")) is not None:
            element.set_property(name.replace("_", "-"), value)


def link(*elements: Any) -> None:
    """Link in order. Raises EdgeError where two do not fit."""
    for left, right in itertools.pairwise(elements):
        if not left.link(right):
            raise EdgeError(f"GStreamer cannot link {left.get_name()} to {right.get_name()}")


def poll_error(bus: Any, timeout_ns: int = 0) -> Any:
    """The next ERROR message of a bus, or None."""
    return bus.timed_pop_filtered(timeout_ns, load().Gst.MessageType.ERROR)


def reading_error(message: Any, name: str, live: bool) -> EdgeError:
    """The error for a bus message of a pipeline that reads `name` (without credentials)."""
    gst = load().Gst
    error, detail = message.parse_error()
    resource, stream, core = gst.ResourceError, gst.StreamError, gst.CoreError

    def is_(domain: Any, *codes: Any) -> bool:
        return any(error.matches(domain.quark(), code) for code in codes)

    text = one_line(error.message)
    if is_(core, core.MISSING_PLUGIN) or is_(stream, stream.CODEC_NOT_FOUND):
        return UnavailableError(f"{name}: {text}", "install gstreamer1.0-libav, gstreamer1.0-plugins-good, "
                                "gstreamer1.0-plugins-bad and gstreamer1.0-plugins-ugly")
    if is_(resource, resource.NOT_AUTHORIZED) or "401" in (detail or ""):
        return InputError(f"{name}: access refused", "check user and password")
    if is_(resource, resource.BUSY):
        return RetryLater(f"{name}: busy", "another program uses it; close that one")
    if is_(resource, resource.NOT_FOUND):
        return InputError(f"{name}: not found", "check the address")
    if live:
        if "Timeout while waiting" in (detail or ""):       # rtspsrc
            text = "connected, but no answer"
        return RetryLater(f"{name}: {text}", "check that the camera is on and can be reached")
    if is_(stream, stream.TYPE_NOT_FOUND) or "typefind" in (detail or ""):
        return InputError(f"{name}: not a video")
    return InputError(f"{name}: cannot be read ({text})", "is it a video, and complete?")


def writing_error(message: Any, name: str) -> EdgeError:
    """The error for a bus message of a pipeline that writes `name`."""
    gst = load().Gst
    error, detail = message.parse_error()
    resource = gst.ResourceError
    if error.matches(resource.quark(), resource.NO_SPACE_LEFT) or "No space left" in (detail or ""):
        return StorageError(f"{name}: disk full", "free some space; finished segments are complete")
    if any(error.matches(resource.quark(), code) for code in (resource.WRITE, resource.OPEN_WRITE, resource.SEEK)):
        return StorageError(f"{name}: writing failed ({one_line(error.message)})", "check the disk")
    return EdgeError(f"{name}: encoding failed ({one_line(error.message)})")


def one_line(text: str) -> str:
    """The first line of a message, without its full stop."""
    return (text.strip().splitlines() or [""])[0].rstrip(".")


class Callbacks:
    """Signal handlers and pad probes that are taken off again.

    A callback keeps its owner alive, the owner the pipeline, and the pipeline the callback; Python's garbage collector
    does not see through GObjects, so a cycle that nobody cuts stays, with all its memory and file descriptors.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def connect(self, element: Any, signal: str, callback: Callable[..., Any]) -> None:
        """Call back on a signal of an element."""
        number = element.connect(signal, callback)
        self._undo.append(lambda: element.disconnect(number))

    def probe(self, pad: Any, mask: Any, callback: Callable[..., Any]) -> None:
        """Call back on what passes a pad, until `remove`."""
        number = pad.add_probe(mask, callback)
        self._undo.append(lambda: pad.remove_probe(number))

    def remove(self) -> None:
        """Take all of them off. Safe to call twice."""
        while self._undo:
            self._undo.pop()()
