"""One flat colour."""

from __future__ import annotations

import numpy as np

from edge.anonymize.color import plane_values
from edge.anonymize.masks import Mask
from edge.anonymize.method import put
from edge.types import Picture, Region


class Solid:
    """Fills masks with a colour, given as red, green, blue from 0 to 255."""

    def __init__(self, color: tuple[int, int, int]) -> None:
        self._color = color

    def paint(self, picture: Picture, mask: Mask, region: Region | None = None) -> None:
        for plane, value in zip(picture.planes, plane_values(self._color, picture), strict=True):
            samples = mask.cut(plane)
            stencil = mask.stencil_for(plane)
            if stencil is None:
                samples[...] = value
            else:
                put(samples, np.broadcast_to(value, samples.shape).astype(samples.dtype), stencil)
