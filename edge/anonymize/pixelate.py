"""Mosaic: every block becomes the mean of its samples. The number of blocks is relative to the face."""

from __future__ import annotations

import numpy as np

from edge.anonymize.blocks import block_means, grid, sample_edges
from edge.anonymize.masks import Mask, picture_step_px
from edge.anonymize.method import Landmarks, put
from edge.types import Picture


class Pixelate:
    """At most `blocks` blocks along the shorter side of the mask, each at least `MIN_BLOCK_PX` wide."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks

    def paint(self, picture: Picture, mask: Mask, landmarks: Landmarks | None = None) -> None:
        columns_px, rows_px = grid(mask, self._blocks, picture_step_px(picture))
        for plane in picture.planes:
            samples = mask.cut(plane)
            columns, rows = sample_edges(columns_px, plane.step_x), sample_edges(rows_px, plane.step_y)
            means = np.rint(block_means(samples, columns, rows)).astype(samples.dtype)
            stencil = mask.stencil_for(plane)
            wide = np.repeat(means, np.diff(columns), axis=1)
            if stencil is None:
                for row, strip in enumerate(wide):
                    samples[rows[row] : rows[row + 1]] = strip
            else:
                put(samples, np.repeat(wide, np.diff(rows), axis=0), stencil)
