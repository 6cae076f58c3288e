"""Mosaic: every block becomes the mean of its samples, in few levels. The number of blocks is relative to the face."""

from __future__ import annotations

from edge.anonymize.blocks import fill_with_mosaic, grid, level_step, mosaic, sample_edges
from edge.anonymize.masks import Mask, picture_step_px
from edge.anonymize.method import put
from edge.types import Picture, Region


class Pixelate:
    """At most `blocks` blocks along the shorter side of the mask, each at least `Mask.min_block_px` wide."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks

    def paint(self, picture: Picture, mask: Mask, region: Region | None = None) -> None:
        columns_px, rows_px = grid(mask, self._blocks, picture_step_px(picture))
        for plane in picture.planes:
            samples = mask.cut(plane)
            columns, rows = sample_edges(columns_px, plane.step_x), sample_edges(rows_px, plane.step_y)
            stencil = mask.stencil_for(plane)
            if stencil is None:
                fill_with_mosaic(samples, columns, rows, level_step(plane))
            else:
                put(samples, mosaic(samples, columns, rows, level_step(plane)), stencil)
