"""Blur that destroys samples first: a mosaic as coarse as that of `Pixelate`, then smoothed.

A plain blur of the face can be undone in part (deconvolution, or a network that has seen the same kernel). Here
everything that is left after the mosaic is some dozens of means, and smoothing adds nothing to them.
"""

from __future__ import annotations

from itertools import pairwise

import cv2

from edge.anonymize.blocks import grid, level_step, mosaic, sample_edges
from edge.anonymize.masks import Mask, picture_step_px
from edge.anonymize.method import put
from edge.types import Picture, Region


class Blur:
    """Looks like a strong blur; keeps as much of a face as a mosaic of `blocks` blocks does."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks

    def paint(self, picture: Picture, mask: Mask, region: Region | None = None) -> None:
        columns_px, rows_px = grid(mask, self._blocks, picture_step_px(picture))
        for plane in picture.planes:
            samples = mask.cut(plane)
            columns, rows = sample_edges(columns_px, plane.step_x), sample_edges(rows_px, plane.step_y)
            coarse = mosaic(samples, columns, rows, level_step(plane))
            # a box filter as wide as a block turns steps into ramps between the centres of the blocks
            smooth = cv2.blur(coarse, (_widest(columns), _widest(rows)), borderType=cv2.BORDER_REPLICATE)
            put(samples, smooth.reshape(samples.shape), mask.stencil_for(plane))


def _widest(edges: list[int]) -> int:
    """Width of the widest block, made odd so that the filter is centred."""
    return max(high - low for low, high in pairwise(edges)) | 1
