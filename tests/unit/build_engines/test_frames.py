"""Sizes of engines, and pictures as frames of exactly such a size."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_engines.frames import as_frame, engine_sizes, mosaic, search_size
from edge.detect.placement import place
from edge.errors import UsageError
from edge.types import Picture, Plane

FULL_HD = engine_sizes([(1920, 1080)], 32)


def grey(width: int, height: int) -> Picture:
    return Picture(width, height, "bgr", (Plane(np.full((height, width, 3), 200, np.uint8)),))


@pytest.mark.parametrize(
    ("frames", "sizes", "middle"),
    [
        ([(1920, 1080)], ["320x192", "640x352", "1280x704"], "640x352"),
        ([(640, 480)], ["320x256", "640x480"], "640x480"),
        ([(160, 120)], ["320x256"], "320x256"),
        ([(1920, 1080), (1280, 720)], ["320x192", "640x352", "1280x704"], "640x352"),
        ([(3840, 2160)], ["320x192", "640x352", "1280x704", "1920x1056"], "640x352"),
    ],
)
def test_sizes(frames: list[tuple[int, int]], sizes: list[str], middle: str) -> None:
    found = engine_sizes(frames, 32)
    assert [str(size) for size in found] == sizes
    assert str(search_size(found)) == middle


def test_no_size() -> None:
    with pytest.raises(UsageError, match="--frame"):
        search_size(())


@given(
    st.integers(1, 3000), st.integers(1, 3000),
    st.sampled_from([(1920, 1080), (1280, 960), (720, 1280), (1000, 1000), (1921, 1079), (640, 480)]),
    st.integers(0, 3),
)   # fmt: skip
def test_every_picture_is_placed_into_the_size_asked_for(
    width: int, height: int, frame: tuple[int, int], which: int
) -> None:
    sizes = engine_sizes([frame], 32)
    size = sizes[min(which, len(sizes) - 1)]
    picture = Picture(width, height, "gray", (Plane(np.zeros((height, width), np.uint8)),))
    framed = as_frame(picture, size, 32)
    placed = place(framed.width_px, framed.height_px, Fraction(1), size.scale_px, 32)
    assert (placed.width_px, placed.height_px) == (size.width_px, size.height_px)
    assert framed.width_px >= width
    assert framed.height_px >= height


def test_pixels_stay_as_they_are() -> None:
    framed = as_frame(grey(500, 375), FULL_HD[1], 32)
    pixels = np.asarray(framed.planes[0].samples)
    assert (pixels[:375, :500] == 200).all()
    assert pixels.sum() == 200 * 3 * 375 * 500


@pytest.mark.parametrize("layout", ["bgr", "bgra", "gray"])
@pytest.mark.parametrize("depth", [np.uint8, np.uint16])
def test_mosaics_hold_every_picture(layout: str, depth: type) -> None:
    shape = {"bgr": (90, 160, 3), "bgra": (90, 160, 4), "gray": (90, 160)}[layout]
    level = 200 if depth is np.uint8 else 200 * 257
    one = Picture(160, 90, layout, (Plane(np.full(shape, level, depth)),))      # type: ignore[arg-type]
    made = mosaic([one] * 4, FULL_HD[1], 2)
    pixels = np.asarray(made.planes[0].samples)
    assert (made.width_px, made.height_px) == (640, 352)
    assert all((pixels[y, x] == 200).all() for y in (10, 186) for x in (10, 330))
