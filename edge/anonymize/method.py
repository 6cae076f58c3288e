"""What every way of hiding a face offers."""

from __future__ import annotations

from typing import Protocol

import cv2

from edge.anonymize.masks import Mask, Samples
from edge.types import Picture, UInt8

Landmarks = tuple[tuple[float, float], ...]


class Method(Protocol):
    """Hides what is under a mask, in place, on every plane; touches nothing else. Raises if it cannot."""

    def paint(self, picture: Picture, mask: Mask, landmarks: Landmarks | None = None) -> None: ...


def put(samples: Samples, replacement: Samples, stencil: UInt8 | None) -> None:
    """Write `replacement` over `samples` (same shape and dtype) where the stencil is not 0. Raises if it cannot."""
    if stencil is None:
        samples[...] = replacement
    elif cv2.copyTo(replacement, stencil, samples) is not samples:
        raise ValueError("samples could not be written in place")
