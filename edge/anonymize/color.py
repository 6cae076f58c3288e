"""A colour as sample values of a picture's planes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from edge.anonymize.masks import Samples
from edge.types import Picture

Matrix = Literal["bt601", "bt709", "bt2020"]

# Weights of red and blue in luma: ITU-R BT.601-7 section 2.5.1, BT.709-6 item 3.2, BT.2020-2 table 4.
_WEIGHTS: dict[Matrix, tuple[float, float]] = {
    "bt601": (0.299, 0.114),
    "bt709": (0.2126, 0.0722),
    "bt2020": (0.2627, 0.0593),
}


def ycbcr(rgb: Samples, matrix: Matrix, full_range: bool) -> Samples:
    """R'G'B' as 8-bit Y'CbCr levels: float64 (..., 3), not rounded; chroma 128 is neutral.

    rgb: (..., 3), red, green, blue from 0 to 255. full_range: Y' and C over 0 to 255 (ITU-T H.273 equations 23-25
    with VideoFullRangeFlag 1) instead of 16 to 235 and 16 to 240.
    """
    red_weight, blue_weight = _WEIGHTS[matrix]
    red, green, blue = np.moveaxis(np.asarray(rgb, np.float64) / 255, -1, 0)
    luma = red_weight * red + (1 - red_weight - blue_weight) * green + blue_weight * blue
    cb = (blue - luma) / (2 * (1 - blue_weight))
    cr = (red - luma) / (2 * (1 - red_weight))
    if full_range:
        return np.stack((255 * luma, 128 + 255 * cb, 128 + 255 * cr), axis=-1).clip(0, 255)
    return np.stack((16 + 219 * luma, 128 + 224 * cb, 128 + 224 * cr), axis=-1)


def plane_values(rgb: tuple[int, int, int], picture: Picture) -> tuple[Samples, ...]:
    """Sample values of an opaque colour, one array per plane, of the dtype of the plane: () or (C,)."""
    red, green, blue = rgb
    if picture.layout == "nv12":
        luma, cb, cr = np.rint(ycbcr(np.array(rgb), picture.matrix, picture.full_range)).astype(np.uint8)
        return luma, np.array((cb, cr), np.uint8)
    dtype = picture.planes[0].samples.dtype
    to_depth = 257 if dtype == np.uint16 else 1
    if picture.layout == "gray":
        level = np.rint(ycbcr(np.array(rgb), "bt601", True)[0])
        return (np.array(level * to_depth).astype(dtype),)
    values = (blue, green, red) if picture.layout == "bgr" else (blue, green, red, 255)
    return ((np.array(values) * to_depth).astype(dtype),)
