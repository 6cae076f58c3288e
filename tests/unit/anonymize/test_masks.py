"""Which samples are masked: against a slow definition, sample by sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from edge.anonymize.gate import Anonymizer
from edge.anonymize.masks import MIN_SIDE_PX, face_mask, is_sane
from edge.settings import MaskSettings, Shape
from edge.types import Layout, Picture
from tests.harness.frames import changed, copies, face, frame, noise

Array = npt.NDArray[Any]
Box = tuple[float, float, float, float]

BOXES: dict[str, Box] = {
    "inside": (20, 10, 44, 40),
    "fractions": (20.3, 10.7, 43.9, 39.2),
    "left": (-12, 10, 8, 30),
    "right": (50, 10, 75, 30),
    "top left corner": (-10, -10, 9, 9),
    "bottom right corner": (55, 38, 80, 60),
    "last row and column": (40, 30, 63, 47),
    "exactly the picture": (0, 0, 63, 47),
    "larger than the picture": (-100, -80, 170, 130),
    "no area": (30, 20, 30, 20),
    "one column": (30, 5, 30.5, 40),
    "one pixel": (62, 46, 63, 47),
}


def scaled(box: Box, scale: float) -> Box:
    """The box that must be covered, at least: written as the definition says, without rounding."""
    x1, y1, x2, y2 = box
    half_x, half_y = (x2 - x1) * scale / 2, (y2 - y1) * scale / 2
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    return x - half_x, y - half_y, x + half_x, y + half_y


def slow_luma(box: Box, width: int, height: int, scale: float, shape: Shape, step: int) -> Array:
    """Mask of the luma plane: the scaled box rounded outwards to `step`, the ellipse in it, pixel by pixel."""
    x1, y1, x2, y2 = scaled(box, scale)
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    half_x, half_y = max(x2 - x1, MIN_SIDE_PX) / 2, max(y2 - y1, MIN_SIDE_PX) / 2
    left, right = math.floor((x - half_x) / step) * step, math.ceil((x + half_x) / step) * step
    top, bottom = math.floor((y - half_y) / step) * step, math.ceil((y + half_y) / step) * step
    mask = np.zeros((height, width), bool)
    for row in range(height):
        for column in range(width):
            if shape == "box":
                mask[row, column] = left <= column < right and top <= row < bottom
                continue
            centre_x, centre_y = (left + right) / 2, (top + bottom) / 2
            near_x = min(max(centre_x, column), column + 1)
            near_y = min(max(centre_y, row), row + 1)
            distance = ((near_x - centre_x) / (right - left) * 2) ** 2 + ((near_y - centre_y) / (bottom - top) * 2) ** 2
            mask[row, column] = distance < 1
    return mask


def slow_chroma(luma: Array) -> Array:
    """A chroma sample is masked if any of the up to four pixels that it covers is."""
    height, width = luma.shape
    rows, columns = -(-height // 2), -(-width // 2)
    return np.array([
        [luma[2 * r : 2 * r + 2, 2 * c : 2 * c + 2].any() for c in range(columns)] for r in range(rows)
    ]).reshape(rows, columns)


def masked(picture: Picture, box: Box, shape: Shape, scale: float = 1.3) -> list[Array]:
    """Where each plane changes under a solid mask whose values do not occur in the picture."""
    before = copies(picture)
    # yellow is outside the noise in every component of every layout
    settings = MaskSettings(method="solid", color=(255, 255, 0), shape=shape, mask_scale=scale)
    safe = Anonymizer(settings).apply(frame(picture), [face(*box)])
    assert safe.redaction == "regions", safe.reason
    return changed(before, picture)


@pytest.mark.parametrize("shape", ["ellipse", "box"])
@pytest.mark.parametrize("layout", ["nv12", "bgr", "gray"])
@pytest.mark.parametrize("size", [(63, 47), (64, 48), (63, 48)], ids=str)
@pytest.mark.parametrize("box", BOXES.values(), ids=list(BOXES))
def test_masked_samples_are_exact(box: Box, size: tuple[int, int], layout: Layout, shape: Shape) -> None:
    width, height = size
    picture = noise(width, height, layout, pad=5)
    planes = masked(picture, box, shape)
    wanted = slow_luma(box, width, height, 1.3, shape, 2 if layout == "nv12" else 1)
    _same(planes[0], wanted)
    if layout == "nv12":
        np.testing.assert_array_equal(planes[1], slow_chroma(planes[0]))


def _same(got: Array, wanted: Array) -> None:
    """Equal but for pixels that the ellipse touches in a point, where rounding decides; those may be masked."""
    missing = wanted & ~got
    assert not missing.any(), np.argwhere(missing)[:5]
    assert np.count_nonzero(got & ~wanted) <= 4


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (2, 2), (3, 2)], ids=str)
@pytest.mark.parametrize("layout", ["nv12", "bgra", "gray"])
@pytest.mark.parametrize("shape", ["ellipse", "box"])
def test_tiny_pictures_are_masked_entirely(size: tuple[int, int], layout: Layout, shape: Shape) -> None:
    width, height = size
    planes = masked(noise(width, height, layout), (-1, -1, width + 1, height + 1), shape, 3.0)
    assert all(plane.all() for plane in planes)


coordinate = st.floats(-60, 120, allow_nan=False, width=32)
side = st.floats(0, 90, allow_nan=False, width=32)


@hypothesis_settings(max_examples=150, deadline=None)
@given(
    x=coordinate,
    y=coordinate,
    box_width=side,
    box_height=side,
    width=st.integers(1, 70),
    height=st.integers(1, 50),
    scale=st.floats(1, 2.5),
    shape=st.sampled_from(["ellipse", "box"]),
    layout=st.sampled_from(["nv12", "bgr"]),
)
def test_all_of_the_face_and_nothing_far_from_it(
    x: float, y: float, box_width: float, box_height: float, width: int, height: int, scale: float,
    shape: Shape, layout: Layout,
) -> None:
    picture = noise(width, height, layout)
    planes = masked(picture, (x, y, x + box_width, y + box_height), shape, scale)
    x1, y1, x2, y2 = scaled((x, y, x + box_width, y + box_height), scale)
    columns, rows = np.arange(width) + 0.5, (np.arange(height) + 0.5)[:, None]
    if shape == "box":
        inside = (columns > x1) & (columns < x2) & (rows > y1) & (rows < y2)
    else:
        half_x, half_y = max((x2 - x1) / 2, 1e-9), max((y2 - y1) / 2, 1e-9)
        inside = ((columns - (x1 + x2) / 2) / half_x) ** 2 + ((rows - (y1 + y2) / 2) / half_y) ** 2 < 1
    assert planes[0][inside].all()
    margin_x = 2 + max(0, MIN_SIDE_PX - (x2 - x1)) / 2
    margin_y = 2 + max(0, MIN_SIDE_PX - (y2 - y1)) / 2
    near = (columns > x1 - margin_x) & (columns < x2 + margin_x) & (rows > y1 - margin_y) & (rows < y2 + margin_y)
    assert not planes[0][~near].any()
    if layout == "nv12":
        np.testing.assert_array_equal(planes[1], slow_chroma(planes[0]))


def test_a_mask_outside_the_picture_is_none() -> None:
    assert face_mask((200, 10, 220, 30), noise(64, 48), 1.3, "ellipse") is None


@pytest.mark.parametrize(
    ("box", "sane"),
    [
        ((0, 0, 10, 10), True),
        ((5, 5, 5, 5), True),
        ((-900, -900, 900, 900), True),
        ((10, 0, 0, 10), False),
        ((0, 10, 10, 0), False),
        ((math.nan, 0, 10, 10), False),
        ((0, 0, 10, math.nan), False),
        ((0, 0, math.inf, 10), False),
        ((-math.inf, 0, 10, 10), False),
        ((0, 0, 1e30, 10), False),
    ],
)
def test_sane_boxes(box: Box, sane: bool) -> None:
    assert is_sane(box) is sane
