"""The mark on pictures in which faces were replaced: whoever sees them shall know that these faces are nobody's."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np

from edge.anonymize.mannequin import NAME
from edge.settings import MaskSettings
from edge.types import Picture, UInt8

TEXT = "FACES REPLACED"
COMMENT = "Faces were replaced: they are nobody's ({})"
_HEIGHT_SHARE = 1 / 28
_SMALLEST_PX, _MARGIN_SHARE = 12, 0.4


def comment_on(settings: MaskSettings) -> str:
    """What files say about their faces; empty where they are hidden and not replaced."""
    return COMMENT.format(NAME) if settings.method == "swap" else ""


def draw_mark(picture: Picture) -> None:
    """Into the lower left corner, on every plane. Pictures too small for it get what fits of it."""
    label = _label(max(_SMALLEST_PX, round(picture.height_px * _HEIGHT_SHARE)) // 2 * 2)
    margin = round(label.shape[0] * _MARGIN_SHARE) // 2 * 2
    bottom = max(0, picture.height_px - margin) // 2 * 2
    x1, y1 = min(margin, max(0, picture.width_px - 2)) // 2 * 2, max(0, bottom - label.shape[0])
    x2, y2 = min(picture.width_px, x1 + label.shape[1]), min(picture.height_px, y1 + label.shape[0])
    part = label[: y2 - y1, : x2 - x1]
    for index, plane in enumerate(picture.planes):
        rows = slice(y1 // plane.step_y, -(-y2 // plane.step_y))
        samples = plane.samples[rows, x1 // plane.step_x : -(-x2 // plane.step_x)]
        if picture.layout == "nv12" and index == 1:
            samples[...] = 128
            continue
        levels = part.astype(samples.dtype) * samples.dtype.type(257 if samples.dtype == np.uint16 else 1)
        if samples.ndim == 2:
            samples[...] = levels
        else:
            samples[..., :3] = levels[..., None]


@lru_cache(maxsize=8)
def _label(height_px: int) -> UInt8:
    """uint8 (height, width): light letters on a dark ground, 16 to 235, sides even."""
    scale, thickness = height_px / 32, max(1, round(height_px / 20))
    (width, text_height), _ = cv2.getTextSize(TEXT, cv2.FONT_HERSHEY_SIMPLEX, scale, thickness)
    label = np.full((height_px, (width + height_px) // 2 * 2), 32, np.uint8)
    at = height_px // 2, (height_px + text_height) // 2
    cv2.putText(label, TEXT, at, cv2.FONT_HERSHEY_SIMPLEX, scale, 224, thickness, cv2.LINE_AA)
    label.setflags(write=False)
    return label
