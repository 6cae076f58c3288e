"""The sizes that engines are built for, and held-out pictures as frames of such a size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from edge.detect.detector import run_time_scales
from edge.detect.placement import place
from edge.errors import UsageError
from edge.types import Picture, Plane

SEARCH_SCALE_PX = 640


@dataclass(frozen=True, slots=True, order=True)
class EngineSize:
    """A detector input, and the frame and scale that it comes from."""

    height_px: int
    width_px: int
    scale_px: int
    frame_width_px: int
    frame_height_px: int

    def __str__(self) -> str:
        return f"{self.width_px}x{self.height_px}"


def engine_sizes(frames: Sequence[tuple[int, int]], multiple: int) -> tuple[EngineSize, ...]:
    """One size per frame size (width, height) and scale that a run takes for it; each input size once, ascending."""
    sizes: dict[tuple[int, int], EngineSize] = {}
    for width, height in frames:
        for scale in run_time_scales(width, height):
            placement = place(width, height, Fraction(1), scale, multiple)
            size = EngineSize(placement.height_px, placement.width_px, scale, width, height)
            sizes.setdefault((size.height_px, size.width_px), size)
    return tuple(sorted(sizes.values(), key=lambda size: (size.scale_px, size)))


def search_size(sizes: Sequence[EngineSize]) -> EngineSize:
    """The size that candidates are searched at: of the middle scale, else the largest below it, else the smallest."""
    if not sizes:
        raise UsageError("there is no frame size to build for", "give one with --frame WxH")
    below = [size for size in sizes if size.scale_px <= SEARCH_SCALE_PX]
    return max(below, key=lambda size: size.scale_px) if below else sizes[0]


def as_frame(picture: Picture, size: EngineSize, multiple: int) -> Picture:
    """`picture`, its pixels as they are, in the upper left corner of a black frame of the shape of `size`'s frame.

    So that its detector input at the scale of `size` is exactly of that size.
    """
    samples: npt.NDArray[Any] = np.asarray(picture.planes[0].samples)
    return _on_black(samples, picture, *_frame(picture.width_px, picture.height_px, size, multiple))


def mosaic(pictures: Sequence[Picture], size: EngineSize, columns: int) -> Picture:
    """Up to columns x columns pictures side by side, each fitted into its cell, in a frame that is exactly the input.

    Faces as far cameras see them: sets of pictures have few small ones, and fewer that a detector can find at all.
    """
    frame = np.zeros((size.height_px, size.width_px, 3), np.uint8)
    cell_width, cell_height = size.width_px // columns, size.height_px // columns
    for number, picture in enumerate(pictures[: columns * columns]):
        samples = _bgr(picture)
        factor = min(cell_width / picture.width_px, cell_height / picture.height_px)
        width, height = max(1, int(factor * picture.width_px)), max(1, int(factor * picture.height_px))
        method = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
        top, left = number // columns * cell_height, number % columns * cell_width
        frame[top : top + height, left : left + width] = cv2.resize(samples, (width, height), interpolation=method)
    return Picture(size.width_px, size.height_px, "bgr", (Plane(frame),))


def _bgr(picture: Picture) -> npt.NDArray[np.uint8]:
    samples: npt.NDArray[Any] = np.asarray(picture.planes[0].samples)
    if samples.dtype == np.uint16:
        samples = cv2.convertScaleAbs(samples, alpha=1 / 257)
    if picture.layout == "gray":
        samples = cv2.cvtColor(samples, cv2.COLOR_GRAY2BGR)
    return np.ascontiguousarray(samples[..., :3], np.uint8)


def _on_black(samples: npt.NDArray[Any], picture: Picture, width: int, height: int) -> Picture:
    frame = np.zeros((height, width, *samples.shape[2:]), samples.dtype)
    frame[: samples.shape[0], : samples.shape[1]] = samples
    return Picture(width, height, picture.layout, (Plane(frame),))


def _frame(width: int, height: int, size: EngineSize, multiple: int) -> tuple[int, int]:
    """The smallest frame of the shape of `size`'s that holds a picture and is placed into an input of that size."""
    shape = Fraction(size.frame_width_px, size.frame_height_px)
    wide = max(width, -(-height * shape.numerator // shape.denominator))
    for candidate in range(wide, wide + 64):
        tall = max(height, round(candidate / shape))
        placement = place(candidate, tall, Fraction(1), size.scale_px, multiple)
        if (placement.height_px, placement.width_px) == (size.height_px, size.width_px):
            return candidate, tall
    # Rounding kept all of them from it: a whole multiple of the frame itself always fits.
    factor = max(-(-width // size.frame_width_px), -(-height // size.frame_height_px))
    return factor * size.frame_width_px, factor * size.frame_height_px
