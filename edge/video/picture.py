"""A decoded GstBuffer as a `Picture` that can be masked in place and handed to the encoder without a copy."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

from edge.types import Picture, Plane, UInt8
from edge.video.format import PictureFormat
from edge.video.gst import load
from edge.video.mapping import MappedBuffer, Nv12Layout, declare_size, is_in_one_piece, layout_of, owners, plane

_LOOKS, _LOOK_INTERVAL_S = 5, 50e-6


class FrameStorage:
    """What `Frame.storage` is for frames from GStreamer: the buffer, mapped, and the format it has.

    `detach` ends the mapping and gives the buffer to the recorder; `release` just gives it back.
    """

    __slots__ = ("_mapped", "format", "frame_rate")

    def __init__(self, mapped: MappedBuffer, picture: PictureFormat, frame_rate: Fraction | None) -> None:
        self._mapped: MappedBuffer | None = mapped
        self.format, self.frame_rate = picture, frame_rate

    def detach(self) -> Any:
        """The unmapped GstBuffer, or None where it was given away before."""
        mapped, self._mapped = self._mapped, None
        if mapped is None:
            return None
        mapped.unmap()
        return mapped.buffer

    def release(self) -> None:
        """Unmap and let the buffer return to its pool. Calling it again does nothing."""
        self.detach()


def wrap_buffer(buffer: Any, format_: PictureFormat, frame_rate: Fraction | None,
                must_copy: bool, known_owners: int = 1) -> tuple[Picture, FrameStorage]:
    """Map an NV12 buffer that nobody but the caller reads or writes.

    The picture has the stored (even) size: an odd one repeats its last column and row, in the padding that NV12 rows
    have anyway. The buffer is copied where it has more than `known_owners` references (a decoder may refer to it),
    where `must_copy` (its pool is small, and a delay line would starve the decoder), or where there is no room for the
    padding.
    """
    width, height = format_.stored_width_px, format_.stored_height_px
    layout = layout_of(buffer, format_.width_px, format_.height_px)
    must_copy = must_copy or not is_in_one_piece(buffer) or not _is_left_alone(buffer, known_owners)
    if must_copy or not _has_room(layout, buffer.get_size(), width, height):
        buffer = _copied(buffer, layout, format_)
        layout = Nv12Layout.default(width, height)
    mapped = MappedBuffer(buffer)
    luma = plane(mapped.data, layout.offsets[0], layout.strides[0], height, width)
    chroma = plane(mapped.data, layout.offsets[1], layout.strides[1], height // 2, width // 2, 2)
    if (width, height) != (format_.width_px, format_.height_px):
        luma[:, format_.width_px:] = luma[:, format_.width_px - 1:format_.width_px]
        luma[format_.height_px:] = luma[format_.height_px - 1:format_.height_px]
        declare_size(buffer, width, height)
    picture = Picture(width, height, "nv12", (Plane(luma), Plane(chroma, 2, 2)), format_.matrix, format_.full_range,
                      format_.pixel_aspect)
    return picture, FrameStorage(mapped, format_, frame_rate)


def _is_left_alone(buffer: Any, known_owners: int) -> bool:
    """Whether others let go of the buffer. The thread that brought it does so a moment after it has handed it over."""
    for _ in range(_LOOKS):
        if owners(buffer) <= known_owners:
            return True
        time.sleep(_LOOK_INTERVAL_S)
    return False


def pool_is_small(buffer: Any) -> bool:
    """Whether the buffer comes from a pool with an upper limit, which a delay line could exhaust."""
    pool = buffer.pool
    if pool is None:
        return False
    known, _, _, _, most = load().Gst.BufferPool.config_get_params(pool.get_config())
    return bool(known) and most > 0


def _has_room(layout: Nv12Layout, size_bytes: int, width_px: int, height_px: int) -> bool:
    return (min(layout.strides) >= width_px and layout.size(height_px) <= size_bytes
            and layout.offsets[1] - layout.offsets[0] >= layout.strides[0] * height_px)


def _copied(buffer: Any, layout: Nv12Layout, format_: PictureFormat) -> Any:
    """A buffer of our own with the picture of `buffer`, in the default layout of the stored size."""
    width, height = format_.width_px, format_.height_px
    target = Nv12Layout.default(format_.stored_width_px, format_.stored_height_px)
    fresh = load().Gst.Buffer.new_allocate(None, target.size(format_.stored_height_px), None)
    fresh.pts, fresh.duration = buffer.pts, buffer.duration
    # Several blocks are joined in a buffer of their own, not in that one, which others may hold.
    whole = buffer if is_in_one_piece(buffer) else load().Gst.Buffer.new_wrapped(
        buffer.extract_dup(0, buffer.get_size()))
    source, sink = MappedBuffer(whole, write=False), MappedBuffer(fresh)
    for index, (rows, columns) in enumerate(((height, width), ((height + 1) // 2, (width + 1) // 2 * 2))):
        _rows(sink.data, target, index, rows, columns)[:] = _rows(source.data, layout, index, rows, columns)
    source.unmap()
    sink.unmap()
    return fresh


def _rows(data: UInt8, layout: Nv12Layout, index: int, rows: int, columns: int) -> UInt8:
    return plane(data, layout.offsets[index], layout.strides[index], rows, columns)
