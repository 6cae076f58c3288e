"""Pictures are GStreamer's own memory, in any layout, and never memory that somebody else refers to."""

from __future__ import annotations

import gc
import weakref
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from edge.video.format import PictureFormat, encoder_caps, format_of, merged_colorimetry
from edge.video.gst import load
from edge.video.mapping import MappedBuffer, Nv12Layout, layout_of, owners, plane
from edge.video.picture import wrap_buffer


def nv12_buffer(width: int, height: int, layout: Nv12Layout | None = None) -> tuple[Any, np.ndarray[Any, Any]]:
    """A buffer with luma x + 2y and chroma (x, y), and its bytes. With a layout, a GstVideoMeta describes it."""
    gst, video = load().Gst, load().GstVideo
    where = layout or Nv12Layout.default(width, height)
    content = np.zeros(where.size(height), np.uint8)
    y, x = np.mgrid[:height, :width]
    plane(content, where.offsets[0], where.strides[0], height, width)[:] = x + 2 * y
    rows, columns = (height + 1) // 2, (width + 1) // 2
    y, x = np.mgrid[:rows, :columns]
    plane(content, where.offsets[1], where.strides[1], rows, columns, 2)[:] = np.stack([x, y], -1)
    buffer = gst.Buffer.new_wrapped(content.tobytes())
    if layout is not None:
        video.buffer_add_video_meta_full(buffer, 0, video.VideoFormat.NV12, width, height, 2,
                                         [*layout.offsets, 0, 0], [*layout.strides, 0, 0])  # fmt: skip
    return buffer, content


def test_views_are_the_buffers_own_memory() -> None:
    buffer, _ = nv12_buffer(16, 8)
    picture, storage = wrap_buffer(buffer, PictureFormat(16, 8, Fraction(1)), None, False)
    luma, chroma = (each.samples for each in picture.planes)
    assert (luma[3, 5], tuple(chroma[2, 4])) == (11, (4, 2))
    luma[3, 5], chroma[2, 4] = 200, (7, 9)
    assert storage.detach() is buffer
    again = MappedBuffer(buffer)
    assert again.data[3 * 16 + 5] == 200
    assert tuple(again.data[16 * 8 + 2 * 16 + 8:][:2]) == (7, 9)
    again.unmap()


@pytest.mark.parametrize(("width", "height"), [(16, 8), (18, 10), (17, 9), (1, 1), (319, 239), (322, 241)])
@pytest.mark.parametrize("padding", [0, 5, 64])
def test_strides_and_offsets_are_those_of_the_buffer(width: int, height: int, padding: int) -> None:
    stride = ((width + 1) & ~1) + padding
    layout = Nv12Layout((padding, padding + stride * (height + 3)), (stride, stride + 2))
    buffer, _ = nv12_buffer(width, height, layout)
    assert layout_of(buffer, width, height) == layout
    picture, storage = wrap_buffer(buffer, PictureFormat(width, height, Fraction(1)), None, False)
    luma, chroma = (each.samples for each in picture.planes)
    assert luma.shape == (picture.height_px, picture.width_px) == ((height + 1) & ~1, (width + 1) & ~1)
    y, x = np.mgrid[:picture.height_px, :picture.width_px]
    expected = (np.minimum(x, width - 1) + 2 * np.minimum(y, height - 1)) & 255   # the last row and column repeated
    assert np.array_equal(luma, expected)
    assert tuple(chroma[-1, -1]) == (((width + 1) // 2 - 1) & 255, ((height + 1) // 2 - 1) & 255)
    storage.release()


def test_tight_memory_is_copied_to_make_room() -> None:
    tight = Nv12Layout((0, 17 * 9), (17, 18))
    buffer, _ = nv12_buffer(17, 9, tight)
    picture, storage = wrap_buffer(buffer, PictureFormat(17, 9, Fraction(1)), None, False)
    assert picture.planes[0].samples[9, 17] == 16 + 2 * 8
    assert storage.detach() is not buffer


def test_memory_with_another_owner_is_copied() -> None:
    buffer, content = nv12_buffer(16, 8)
    holder = load().Gst.Sample.new(buffer, None, None, None)          # as a decoder keeps its reference pictures
    assert owners(buffer) == 2
    picture, storage = wrap_buffer(buffer, PictureFormat(16, 8, Fraction(1)), None, False)
    picture.planes[0].samples[:] = 0
    storage.release()
    original = MappedBuffer(holder.get_buffer(), write=False)
    assert np.array_equal(original.data, content)
    original.unmap()


def test_a_view_that_is_kept_keeps_its_memory() -> None:
    buffer, _ = nv12_buffer(16, 8)
    picture, storage = wrap_buffer(buffer, PictureFormat(16, 8, Fraction(1)), None, False)
    view = picture.planes[0].samples
    storage.release()
    del picture, storage, buffer
    gc.collect()
    assert view[7, 15] == 15 + 14


def test_memory_goes_back_once_nobody_looks() -> None:
    mapped = MappedBuffer(nv12_buffer(16, 8)[0])
    gone = weakref.ref(mapped.data.base.obj if hasattr(mapped.data.base, "obj") else mapped.data)
    mapped.unmap()
    mapped.unmap()                                      # calling it again does nothing
    del mapped
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(("offset", "stride", "rows", "columns", "channels"), [
    (0, 16, 9, 16, 1), (1, 16, 8, 16, 1), (0, 15, 8, 16, 1), (0, 16, 8, 9, 2), (-1, 16, 8, 16, 1),
])  # fmt: skip
def test_a_plane_beyond_its_memory_is_refused(offset: int, stride: int, rows: int, columns: int, channels: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        plane(np.zeros(16 * 8, np.uint8), offset, stride, rows, columns, channels)


@pytest.mark.parametrize(("caps", "matrix", "full_range", "sent"), [
    ("width=640,height=360", "bt601", False, None),
    ("width=1280,height=720", "bt709", False, None),
    ("width=640,height=360,colorimetry=bt709", "bt709", False, "bt709"),
    ("width=640,height=360,colorimetry=1:3:5:1", "bt709", True, "1:3:5:1"),
    ("width=640,height=360,colorimetry=1:0:0:0", "bt601", True, "1:4:0:0"),      # range without matrix
    ("width=1280,height=720,colorimetry=2:0:0:0", "bt709", False, "2:3:0:0"),
    ("width=640,height=360,colorimetry=bt2100-pq", "bt2020", False, "bt2100-pq"),
])  # fmt: skip
def test_colours_arrive_at_the_encoder(caps: str, matrix: str, full_range: bool, sent: str | None) -> None:
    gst, video = load().Gst, load().GstVideo
    format_ = format_of(gst.Caps.from_string(f"video/x-raw,format=NV12,framerate=25/1,{caps}"))
    assert (format_.matrix, format_.full_range) == (matrix, full_range)
    given = encoder_caps(format_, Fraction(25)).get_structure(0).get_string("colorimetry")
    wanted = gst.Caps.from_string(f"video/x-raw,colorimetry=(string){sent}").get_structure(0).get_string("colorimetry")
    colours = [video.VideoColorimetry() for _ in range(2)]
    if sent is None:
        assert given is None
    else:
        assert [colour.from_string(text) for colour, text in zip(colours, (given, wanted), strict=True)] == [True, True]
        assert colours[0].is_equal(colours[1])


def test_the_stream_knows_better_than_its_container() -> None:
    assert merged_colorimetry("1:3:5:1", "bt709") == "1:3:5:1"
    assert merged_colorimetry("1:0:0:0", "bt709") == "1:3:5:1"
    assert merged_colorimetry("", "bt709") == "bt709"
