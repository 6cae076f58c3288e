"""Which pixels hide a face: exact to the last row and column, and the same on luma and on chroma."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from edge.settings import Shape
from edge.types import Picture, Plane, UInt8

Samples = npt.NDArray[Any]
Rect = tuple[int, int, int, int]

MIN_SIDE_PX = 8
"""A mask is never smaller than this, so that a degenerate box still hides what it points at."""

MIN_BLOCK_PX = 4

_MAX_COORDINATE_PX = 1_000_000.0
_MAX_CACHED_SIDE_PX = 256


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The pixels of one face or zone.

    bounds: x1 y1 x2 y2 in pixels, exclusive ends, of the whole mask before the border of the picture cuts it; even
        where the picture has subsampled chroma, so that one block is the same area on every plane.
    visible: the part of `bounds` inside the picture; never empty.
    stencil: uint8, 0 or 1, one per pixel of `visible` and padded at the right and bottom with 0 to even sizes;
        None when all of `visible` is masked.
    min_block_px: a mosaic under this mask has no smaller blocks, so that a small face keeps even fewer of them: 3
        across 12 pixels, 1 across 7.
    """

    bounds: Rect
    visible: Rect
    stencil: UInt8 | None
    min_block_px: int = MIN_BLOCK_PX

    def cut(self, plane: Plane) -> Samples:
        """The samples of `plane` under `visible`: a view, (h, w) or (h, w, C)."""
        x1, y1, x2, y2 = self.visible
        return plane.samples[
            y1 // plane.step_y : -(-y2 // plane.step_y), x1 // plane.step_x : -(-x2 // plane.step_x)
        ]

    def stencil_for(self, plane: Plane) -> UInt8 | None:
        """The stencil at the resolution of `plane`: a sample counts if any pixel that it covers counts."""
        if self.stencil is None:
            return None
        x1, y1, x2, y2 = self.visible
        if plane.step_x == 1 and plane.step_y == 1:
            return self.stencil[: y2 - y1, : x2 - x1]
        rows = self.stencil[0::2] | self.stencil[1::2]
        any_of_four: UInt8 = (rows.view(np.uint16) != 0).view(np.uint8)
        return any_of_four

    def area_px(self) -> int:
        """Number of masked pixels."""
        x1, y1, x2, y2 = self.visible
        return (y2 - y1) * (x2 - x1) if self.stencil is None else int(np.count_nonzero(self.stencil))


def is_sane(box: tuple[float, float, float, float]) -> bool:
    """Whether a box can be a face: four finite numbers in order, not beyond any picture. NaN compares false."""
    x1, y1, x2, y2 = box
    limit = _MAX_COORDINATE_PX
    return bool(-limit <= x1 <= x2 <= limit and -limit <= y1 <= y2 <= limit)


def picture_step_px(picture: Picture) -> int:
    """Pixels per sample of the coarsest plane: 2 for NV12, 1 otherwise."""
    return max(max(plane.step_x, plane.step_y) for plane in picture.planes)


def face_mask(
    box: tuple[float, float, float, float], picture: Picture, scale: float, shape: Shape
) -> Mask | None:
    """The mask of a face box (pixels, exclusive ends), `scale` times as large about its centre.

    Every pixel that the scaled box, or the ellipse inscribed in it, touches is masked. None if the mask lies
    outside the picture. The box must be sane.
    """
    step = picture_step_px(picture)
    x1, x2 = _scaled(box[0], box[2], scale, step)
    y1, y2 = _scaled(box[1], box[3], scale, step)
    visible = (max(x1, 0), max(y1, 0), min(x2, picture.width_px), min(y2, picture.height_px))
    if visible[0] >= visible[2] or visible[1] >= visible[3]:
        return None
    bounds = (x1, y1, x2, y2)
    return Mask(bounds, visible, _ellipse(bounds, visible) if shape == "ellipse" else None)


def _scaled(low: float, high: float, scale: float, step: int) -> tuple[int, int]:
    """Ends of one side after scaling, rounded outwards to multiples of `step`."""
    centre = (low + high) / 2
    half = max((high - low) * scale, MIN_SIDE_PX) / 2
    return math.floor((centre - half) / step) * step, math.ceil((centre + half) / step) * step


def _ellipse(bounds: Rect, visible: Rect) -> UInt8:
    """Stencil of the ellipse inscribed in `bounds`, over `visible`: 1 for each pixel whose square touches it."""
    width, height = bounds[2] - bounds[0], bounds[3] - bounds[1]
    if bounds == visible and max(width, height) <= _MAX_CACHED_SIDE_PX:
        return _cached_ellipse(width, height)
    left, top = visible[0] - bounds[0], visible[1] - bounds[1]
    return _ellipse_part(width, height, left, top, visible[2] - visible[0], visible[3] - visible[1])


@lru_cache(maxsize=128)     # 8 MB at most; a face keeps its size, rounded to whole samples, for several frames
def _cached_ellipse(width: int, height: int) -> UInt8:
    stencil = _ellipse_part(width, height, 0, 0, width, height)
    stencil.setflags(write=False)
    return stencil


def _ellipse_part(width: int, height: int, left: int, top: int, part_width: int, part_height: int) -> UInt8:
    """A part, with its corner at (left, top), of the stencil of an ellipse that fills width x height pixels."""
    radius_x, radius_y = width / 2, height / 2
    rows = np.arange(top, top + part_height, dtype=np.float64)
    nearest = np.maximum(np.abs(rows + 0.5 - radius_y) - 0.5, 0.0) / radius_y
    half = radius_x * np.sqrt(np.maximum(1.0 - nearest * nearest, 0.0))
    first = np.floor(radius_x - half).clip(left, left + part_width).astype(int) - left
    end = np.ceil(radius_x + half).clip(left, left + part_width).astype(int) - left
    stencil = np.zeros((part_height + part_height % 2, part_width + part_width % 2), np.uint8)
    for line, start, stop in zip(stencil, first.tolist(), end.tolist(), strict=False):  # no row for the padding
        line[start:stop] = 1
    return stencil


def pad_to_even(stencil: UInt8) -> UInt8:
    """The stencil with a row or a column of 0 added where a side is odd."""
    height, width = stencil.shape
    if height % 2 == 0 and width % 2 == 0:
        return stencil
    padded = np.zeros((height + height % 2, width + width % 2), np.uint8)
    padded[:height, :width] = stencil
    return padded
