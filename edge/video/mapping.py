"""Picture memory of GStreamer as numpy arrays, without a copy.

PyGObject's own MapInfo copies (pygobject issue 69), so memory is mapped through the C functions; PyGObject gives the
address of a boxed object as its hash. Layouts come from GstVideoMeta where a buffer has one, else from the
documented default of NV12 in gstreamer's video-info.c; never from width * height * 1.5.
"""

from __future__ import annotations

import ctypes as ct
import functools
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from edge.errors import EdgeError
from edge.types import UInt8
from edge.video.gst import load

MAP_READ, MAP_WRITE = 1, 2


class _MapInfo(ct.Structure):
    _fields_ = (("memory", ct.c_void_p), ("flags", ct.c_int), ("data", ct.c_void_p), ("size", ct.c_size_t),
                ("maxsize", ct.c_size_t), ("user_data", ct.c_void_p * 4), ("reserved", ct.c_void_p * 4))


class _VideoMeta(ct.Structure):                      # gstvideometa.h, unchanged since 1.0 up to `stride`
    _fields_ = (("meta_flags", ct.c_int), ("info", ct.c_void_p), ("buffer", ct.c_void_p), ("flags", ct.c_int),
                ("format", ct.c_int), ("id", ct.c_int), ("width", ct.c_uint), ("height", ct.c_uint),
                ("n_planes", ct.c_uint), ("offset", ct.c_size_t * 4), ("stride", ct.c_int * 4))


class _MiniObject(ct.Structure):                     # the start of GstMiniObject, unchanged since 1.0
    _fields_ = (("type", ct.c_size_t), ("reference_count", ct.c_int))


@dataclass(frozen=True)
class _Library:
    map: Any
    unmap: Any
    n_memory: Any
    peek_memory: Any
    video_meta: Any


@functools.cache
def _library() -> _Library:
    load()
    base, video = ct.CDLL("libgstreamer-1.0.so.0"), ct.CDLL("libgstvideo-1.0.so.0")
    found = _Library(base.gst_memory_map, base.gst_memory_unmap, base.gst_buffer_n_memory, base.gst_buffer_peek_memory,
                     video.gst_buffer_get_video_meta)
    found.map.argtypes, found.map.restype = (ct.c_void_p, ct.POINTER(_MapInfo), ct.c_int), ct.c_int
    found.unmap.argtypes, found.unmap.restype = (ct.c_void_p, ct.POINTER(_MapInfo)), None
    found.n_memory.argtypes, found.n_memory.restype = (ct.c_void_p,), ct.c_uint
    found.peek_memory.argtypes, found.peek_memory.restype = (ct.c_void_p, ct.c_uint), ct.c_void_p
    found.video_meta.argtypes, found.video_meta.restype = (ct.c_void_p,), ct.POINTER(_VideoMeta)
    return found


@dataclass(frozen=True, slots=True)
class Nv12Layout:
    """Where the two planes of an NV12 picture lie in its buffer, bytes."""

    offsets: tuple[int, int]
    strides: tuple[int, int]

    @staticmethod
    def default(width_px: int, height_px: int) -> Nv12Layout:
        """GStreamer's layout without padding wishes: rows of a multiple of 4 bytes, an even number of luma rows."""
        stride = (width_px + 3) & ~3
        return Nv12Layout((0, stride * ((height_px + 1) & ~1)), (stride, stride))

    def size(self, height_px: int) -> int:
        """Bytes up to the end of the chroma plane, its last row in full."""
        return self.offsets[1] + self.strides[1] * ((height_px + 1) // 2)


def owners(buffer: Any) -> int:
    """How many references to this buffer there are: 1 for that of `buffer` itself, and one for each other holder.

    A decoder that still refers to a picture holds it. appsink also keeps the buffer that it gave out last, in a sample
    that it recycles (gstappsink.c, since 1.16), which stops nobody from writing; gst_buffer_map cannot know that.
    """
    count: int = _MiniObject.from_address(hash(buffer)).reference_count
    return count


def is_in_one_piece(buffer: Any) -> bool:
    """Whether the buffer's memory is a single block."""
    return bool(_library().n_memory(hash(buffer)) == 1)


def layout_of(buffer: Any, width_px: int, height_px: int) -> Nv12Layout:
    """The layout of an NV12 buffer of this picture size."""
    meta = _library().video_meta(hash(buffer))
    if not meta:
        return Nv12Layout.default(width_px, height_px)
    found = meta.contents
    return Nv12Layout((found.offset[0], found.offset[1]), (found.stride[0], found.stride[1]))


def declare_size(buffer: Any, width_px: int, height_px: int) -> None:
    """Tell the buffer's GstVideoMeta, where it has one, that its picture has this size now."""
    meta = _library().video_meta(hash(buffer))
    if meta:
        meta.contents.width, meta.contents.height = width_px, height_px


class MappedBuffer:
    """A GstBuffer whose memory, in one piece, is mapped for reading and (with `write`) writing until `unmap`.

    The memory is mapped rather than the buffer, see `owners`. Raises EdgeError where that is not possible, as when two
    buffers share the memory and it is to be written.

    data: uint8 (bytes,), the buffer's memory itself. Arrays made from it keep the buffer alive, so that a view held
    too long sees stale pixels but never freed memory.
    """

    __slots__ = ("_info", "_memory", "buffer", "data")

    def __init__(self, buffer: Any, write: bool = True) -> None:
        self.buffer = buffer
        self._info: _MapInfo | None = _MapInfo()
        flags = MAP_READ | MAP_WRITE if write else MAP_READ
        self._memory = _library().peek_memory(hash(buffer), 0) if is_in_one_piece(buffer) else None
        if not self._memory or not _library().map(self._memory, ct.byref(self._info), flags):
            self._info = None
            raise EdgeError("a picture's memory cannot be mapped")
        memory = (ct.c_uint8 * self._info.size).from_address(self._info.data)
        memory.owner = buffer
        self.data = cast(UInt8, np.frombuffer(memory, np.uint8))

    def unmap(self) -> None:
        """Give the mapping back; calling it again does nothing."""
        if self._info is not None:
            info, self._info = self._info, None
            _library().unmap(self._memory, ct.byref(info))

    def __del__(self) -> None:
        self.unmap()


def plane(data: UInt8, offset: int, stride: int, rows: int, columns: int, channels: int = 1) -> UInt8:
    """A view of samples in `data`: uint8 (rows, columns) or, with channels, (rows, columns, channels).

    Raises ValueError where the plane does not fit into the memory.
    """
    if offset < 0 or stride < columns * channels or offset + stride * (rows - 1) + columns * channels > data.size:
        raise ValueError(f"a plane of {rows} rows of {columns * channels} bytes does not fit into its buffer")
    shape = (rows, columns) if channels == 1 else (rows, columns, channels)
    strides = (stride, 1) if channels == 1 else (stride, channels, 1)
    view: UInt8 = np.ndarray(shape, np.uint8, data, offset, strides)
    return view
