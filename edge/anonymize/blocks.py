"""Mosaics: where the blocks of a mask lie, and what stands in them.

Means are rounded to few levels. In a film the grid moves over the face, and each frame is another measurement of it:
from exact means of 25 frames a face can be computed that a recogniser knows again (`tests/bench/fusion.py`). Rounding
errors are as large as the differences which that needs, and unlike noise they do not average away in a still scene.
"""

from __future__ import annotations

from itertools import pairwise

import cv2
import numpy as np

from edge.anonymize.masks import Mask, Samples
from edge.types import Float32, Plane

LUMA_STEP = 16
CHROMA_STEP = 8

_MAX_BLOCKS = 32


def block_counts(width_px: int, height_px: int, blocks: int, min_block_px: int) -> tuple[int, int]:
    """Blocks across and down for a mask of this size: `blocks` or fewer along the shorter side, no finer elsewhere."""
    short = min(width_px, height_px)
    along_short = max(1, min(blocks, short // min_block_px))
    block_px = max(short / along_short, min_block_px)

    def count(side_px: int) -> int:
        return max(1, min(_MAX_BLOCKS, int(side_px / block_px + 1e-9)))

    return count(width_px), count(height_px)


def grid(mask: Mask, blocks: int, step: int) -> tuple[list[int], list[int]]:
    """Edges of the block columns and rows inside `mask.visible`, in pixels from its left and top.

    The grid belongs to the whole mask: a border that cuts the mask cuts blocks and does not make them smaller.
    Inner edges are multiples of `step`, so that they fall between samples on every plane.
    """
    x1, y1, x2, y2 = mask.bounds
    left, top, right, bottom = mask.visible
    across, down = block_counts(x2 - x1, y2 - y1, blocks, mask.min_block_px)
    return _edges(x1, x2, left, right, across, step), _edges(y1, y2, top, bottom, down, step)


def _edges(start: int, end: int, low: int, high: int, count: int, step: int) -> list[int]:
    units = (end - start) // step
    inner = (start + step * (k * units // count) for k in range(1, count))
    return [0, *(edge - low for edge in inner if low < edge < high), high - low]


def sample_edges(edges: list[int], step: int) -> list[int]:
    """Edges in pixels as edges in samples of a plane with this step."""
    return edges if step == 1 else [-(-edge // step) for edge in edges]


def block_means(samples: Samples, columns: list[int], rows: list[int]) -> Float32:
    """Mean of every block: float32 (rows, columns) or (rows, columns, C).

    samples: uint8 or uint16, (h, w) or (h, w, C); columns, rows: edges in samples, from 0 to w and h.
    """
    sums = np.empty((len(rows) - 1, *samples.shape[1:]), np.float32)
    for row in range(len(rows) - 1):
        # many times faster than cv2.resize with INTER_AREA or numpy.add.reduceat on the samples themselves
        cv2.reduce(samples[rows[row] : rows[row + 1]], 0, cv2.REDUCE_SUM, sums[row : row + 1], cv2.CV_32F)
    means: Float32 = np.add.reduceat(sums, columns[:-1], axis=1)
    widths = np.array(_sizes(columns), np.float32)
    areas = np.array(_sizes(rows), np.float32)[:, None] * widths
    means /= areas if samples.ndim == 2 else areas[..., None]
    return means


def mosaic(samples: Samples, columns: list[int], rows: list[int], level_step: int) -> Samples:
    """A copy of `samples` in which every block is its own mean, rounded to a multiple of `level_step` (of 255)."""
    levels = _levels(samples, columns, rows, level_step)
    return np.repeat(np.repeat(levels, _sizes(columns), axis=1), _sizes(rows), axis=0)


def fill_with_mosaic(samples: Samples, columns: list[int], rows: list[int], level_step: int) -> None:
    """What `mosaic` makes, written over `samples` without a copy of them."""
    levels = _levels(samples, columns, rows, level_step)
    for row, strip in enumerate(np.repeat(levels, _sizes(columns), axis=1)):
        samples[rows[row] : rows[row + 1]] = strip


def level_step(plane: Plane) -> int:
    """How coarsely block means of a plane are rounded; see the module's docstring."""
    return LUMA_STEP if plane.step_x == 1 else CHROMA_STEP


def _levels(samples: Samples, columns: list[int], rows: list[int], step: int) -> Samples:
    limit = 255
    if samples.dtype == np.uint16:
        step, limit = step * 257, 65535
    means = block_means(samples, columns, rows)
    means *= 1 / step
    np.rint(means, out=means)
    means *= step
    return np.minimum(means, limit, out=means).astype(samples.dtype)


def _sizes(edges: list[int]) -> list[int]:
    return [high - low for low, high in pairwise(edges)]
