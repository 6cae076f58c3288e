"""What every way of hiding a face offers."""

from __future__ import annotations

from typing import Protocol

import cv2
import numpy as np

from edge.anonymize.masks import Mask, Samples
from edge.types import Picture, UInt8

Landmarks = tuple[tuple[float, float], ...]


class Method(Protocol):
    """Hides what is under a mask, in place, on every plane; touches nothing else. Raises if it cannot."""

    def paint(self, picture: Picture, mask: Mask, landmarks: Landmarks | None = None) -> None: ...


def put(samples: Samples, replacement: Samples, stencil: UInt8 | None) -> None:
    """Write `replacement` over `samples` (same shape and dtype) where the stencil is not 0."""
    if stencil is None:
        samples[...] = replacement
    elif cv2.copyTo(replacement, stencil, samples) is not samples:
        # cv2 gives back another array when it could not write into this one
        np.copyto(samples, replacement, where=(stencil if samples.ndim == 2 else stencil[..., None]) != 0)
