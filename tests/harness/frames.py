"""Frames for tests, and the conversion of NV12 to RGB written another way than the code under test."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from edge.types import Frame, Layout, Picture, Plane, Region

Array = npt.NDArray[Any]

# Luma weights of red and blue, and from those the textbook inverse (ITU-R BT.601, BT.709, BT.2020).
WEIGHTS = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}


def noise(width: int, height: int, layout: Layout = "nv12", seed: int = 0, depth: int = 8, pad: int = 0) -> Picture:
    """Random samples from 40 to 200 (times 257 for 16 bits); `pad` more samples at the end of each row in memory."""
    random = np.random.default_rng(seed)
    dtype, gain = (np.uint16, 257) if depth == 16 else (np.uint8, 1)

    def samples(*shape: int) -> Array:
        memory = random.integers(40, 201, (shape[0], shape[1] + pad, *shape[2:])).astype(dtype) * dtype(gain)
        return memory[:, : shape[1]]

    if layout == "nv12":
        chroma = samples(-(-height // 2), -(-width // 2), 2)
        return Picture(width, height, layout, (Plane(samples(height, width)), Plane(chroma, 2, 2)))
    channels = {"gray": (), "bgr": (3,), "bgra": (4,)}[layout]
    return Picture(width, height, layout, (Plane(samples(height, width, *channels)),))


def frame(picture: Picture, damaged: bool = False) -> Frame:
    return Frame("test", 0, 7, picture, 0, 40_000_000, damaged)


def face(
    x1: float, y1: float, x2: float, y2: float, landmarks: tuple[tuple[float, float], ...] | None = None
) -> Region:
    return Region((x1, y1, x2, y2), 1, "detected", landmarks)


def copies(picture: Picture) -> list[Array]:
    """The samples of every plane, copied."""
    return [plane.samples.copy() for plane in picture.planes]


def changed(before: list[Array], picture: Picture) -> list[Array]:
    """Per plane: bool (h, w), where any component of a sample differs."""
    different = [plane.samples != old for plane, old in zip(picture.planes, before, strict=True)]
    return [each.any(axis=2) if each.ndim == 3 else each for each in different]


def nv12_from_bgr(
    bgr: Array, matrix: Literal["bt601", "bt709", "bt2020"] = "bt601", full_range: bool = False
) -> Picture:
    """A real picture as NV12, chroma averaged over 2 x 2 pixels."""
    red_weight, blue_weight = WEIGHTS[matrix]
    blue, green, red = (bgr[..., i].astype(float) / 255 for i in range(3))
    luma = red_weight * red + (1 - red_weight - blue_weight) * green + blue_weight * blue
    chroma = np.stack(((blue - luma) / (2 - 2 * blue_weight), (red - luma) / (2 - 2 * red_weight)), axis=-1)
    height, width = luma.shape
    chroma = np.pad(chroma, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    chroma = (chroma[0::2, 0::2] + chroma[0::2, 1::2] + chroma[1::2, 0::2] + chroma[1::2, 1::2]) / 4
    y = luma * 255 if full_range else 16 + luma * 219
    c = 128 + chroma * (255 if full_range else 224)
    planes = (Plane(_uint8(y)), Plane(_uint8(c), 2, 2))
    return Picture(width, height, "nv12", planes, matrix, full_range)


def bgr_from_nv12(picture: Picture) -> Array:
    """uint8 (H, W, 3), blue first; chroma repeated, not interpolated."""
    red_weight, blue_weight = WEIGHTS[picture.matrix]
    y = picture.planes[0].samples.astype(float)
    c = np.repeat(np.repeat(picture.planes[1].samples.astype(float), 2, axis=0), 2, axis=1)
    c = c[: picture.height_px, : picture.width_px] - 128
    luma = y / 255 if picture.full_range else (y - 16) / 219
    c = c / 255 if picture.full_range else c / 224
    red = luma + 2 * (1 - red_weight) * c[..., 1]
    blue = luma + 2 * (1 - blue_weight) * c[..., 0]
    green = (luma - red_weight * red - blue_weight * blue) / (1 - red_weight - blue_weight)
    return _uint8(np.stack((blue, green, red), axis=-1) * 255)


def _uint8(values: Array) -> Array:
    return np.rint(values).clip(0, 255).astype(np.uint8)
