"""What every way of hiding a face offers."""

from __future__ import annotations

from typing import Protocol

import cv2

from edge.anonymize.masks import Mask, Samples
from edge.types import Picture, Region, UInt8


class Method(Protocol):
    """Hides what is under a mask, in place, on every plane. Raises if it cannot.

    region: whose mask it is; None for a zone.
    """

    def paint(self, picture: Picture, mask: Mask, region: Region | None = None) -> None: ...


def put(samples: Samples, replacement: Samples, stencil: UInt8 | None) -> None:
    """Write `replacement` over `samples` (same shape and dtype) where the stencil is not 0. Raises if it cannot."""
    if stencil is None:
        samples[...] = replacement
    elif cv2.copyTo(replacement, stencil, samples) is not samples:
        raise ValueError("samples could not be written in place")
