"""Mosaic grids: where the blocks of a mask lie, and what each of them averages to."""

from __future__ import annotations

import cv2
import numpy as np

from edge.anonymize.masks import Mask, Samples
from edge.types import Float32

MIN_BLOCK_PX = 4
"""Blocks are never smaller, so that a small face keeps even fewer of them: 3 across 12 pixels, 1 across 7."""

_MAX_BLOCKS = 32


def block_counts(width_px: int, height_px: int, blocks: int) -> tuple[int, int]:
    """Blocks across and down for a mask of this size: `blocks` or fewer along the shorter side, no finer elsewhere."""
    short = min(width_px, height_px)
    along_short = max(1, min(blocks, short // MIN_BLOCK_PX))
    block_px = max(short / along_short, MIN_BLOCK_PX)

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
    across, down = block_counts(x2 - x1, y2 - y1, blocks)
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
        strip = samples[rows[row] : rows[row + 1]]
        sums[row] = cv2.reduce(strip, 0, cv2.REDUCE_SUM, dtype=cv2.CV_32F).reshape(samples.shape[1:])
    # float64, because the sum of a large 16-bit block does not fit 24 bits
    totals = np.add.reduceat(sums, columns[:-1], axis=1, dtype=np.float64)
    areas = np.outer(np.diff(rows), np.diff(columns))
    means: Float32 = (totals / areas.reshape(areas.shape + (1,) * (samples.ndim - 2))).astype(np.float32)
    return means
