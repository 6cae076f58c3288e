"""The user's picture over every face, with a mosaic underneath, so that transparency never shows a face."""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from edge.anonymize.color import ycbcr
from edge.anonymize.masks import Mask, Rect, Samples, picture_step_px
from edge.anonymize.pixelate import Pixelate
from edge.errors import InputError
from edge.types import Landmarks, Picture, Region, UInt8

Affine = npt.NDArray[np.float64]

EYES = ((0.3, 0.4), (0.7, 0.4))
"""Where the picture is taken to have its eyes (left one first as seen), in fractions of its width and height."""

_MAX_SIDE_PX = 1024
_PLAUSIBLE_WIDTH = (0.6, 1.6)


class Overlay:
    """Draws a picture with or without alpha on each face, turned and sized by its eyes where they are known.

    Raises InputError if `path` is not a picture.
    """

    def __init__(self, path: Path, blocks: int) -> None:
        self._base = Pixelate(blocks)
        self._image = _load(path)
        self._levels: dict[tuple[str, str, bool], list[UInt8]] = {}

    def paint(self, picture: Picture, mask: Mask, region: Region | None = None) -> None:
        self._base.paint(picture, mask)
        landmarks = None if region is None else region.landmarks
        height, width = self._image.shape[:2]
        to_picture = placement(width, height, mask.bounds, landmarks)
        rect = _reach(to_picture, width, height, picture)
        if rect is not None:
            _blend(picture, rect, _warp(self._levels_for(picture), to_picture, rect))

    def _levels_for(self, picture: Picture) -> list[UInt8]:
        """The image in the colours of `picture`, premultiplied, each level half the size of the one before."""
        key = (picture.layout, picture.matrix, picture.full_range)
        if key not in self._levels:
            levels = [_premultiplied(self._image, picture)]
            while min(levels[-1].shape[:2]) >= 2:
                height, width = levels[-1].shape[:2]
                half = (width + 1) // 2, (height + 1) // 2
                levels.append(np.asarray(cv2.resize(levels[-1], half, interpolation=cv2.INTER_AREA), np.uint8))
            self._levels[key] = levels
        return self._levels[key]


def placement(width: int, height: int, bounds: Rect, landmarks: Landmarks | None) -> Affine:
    """Where the image goes: 2x3, from its coordinates to those of the picture; (0, 0) is the corner of pixel 0 in both.

    With eyes that fit the mask it is the similarity that puts `EYES` on them; otherwise the image is stretched over
    the mask.
    """
    x1, y1, x2, y2 = bounds
    if landmarks is not None and len(landmarks) >= 2:
        (first_x, first_y), (second_x, second_y) = landmarks[0], landmarks[1]
        eyes = complex(second_x - first_x, second_y - first_y)
        turn = eyes / complex((EYES[1][0] - EYES[0][0]) * width, (EYES[1][1] - EYES[0][1]) * height)
        ratio = abs(turn) * width / (x2 - x1)
        if math.isfinite(ratio) and _PLAUSIBLE_WIDTH[0] <= ratio <= _PLAUSIBLE_WIDTH[1]:
            corner = complex(first_x, first_y) - turn * complex(EYES[0][0] * width, EYES[0][1] * height)
            return np.array(((turn.real, -turn.imag, corner.real), (turn.imag, turn.real, corner.imag)))
    return np.array((((x2 - x1) / width, 0.0, x1), (0.0, (y2 - y1) / height, y1)))


def _load(path: Path) -> UInt8:
    """The picture as uint8 BGRA, at most `_MAX_SIDE_PX` wide and high."""
    try:
        data = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}", "name a picture that can be read") from error
    try:
        image = cv2.imdecode(data, cv2.IMREAD_UNCHANGED) if data.size else None
    except cv2.error:
        image = None
    if image is None or image.dtype not in (np.uint8, np.uint16):
        raise InputError(f"{path} is not a picture", "give a PNG, JPEG or WebP file")
    if image.dtype == np.uint16:
        image = np.right_shift(image.astype(np.uint16), 8).astype(np.uint8)
    if image.ndim == 2:
        image = cv2.cvtColor(image, cv2.COLOR_GRAY2BGRA)
    elif image.shape[2] == 3:
        image = cv2.cvtColor(image, cv2.COLOR_BGR2BGRA)
    shrink = _MAX_SIDE_PX / max(image.shape[:2])
    if shrink < 1:
        size = max(1, round(image.shape[1] * shrink)), max(1, round(image.shape[0] * shrink))
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return np.asarray(image, np.uint8)


def _premultiplied(image: UInt8, picture: Picture) -> UInt8:
    """uint8 (H, W, 4): the picture's own components times alpha (Y Cb Cr, B G R, or grey three times), and alpha."""
    alpha = image[..., 3:].astype(np.float64) / 255
    if picture.layout == "nv12":
        values = ycbcr(image[..., 2::-1], picture.matrix, picture.full_range)
    elif picture.layout == "gray":
        values = np.repeat(ycbcr(image[..., 2::-1], "bt601", True)[..., :1], 3, axis=-1)
    else:
        values = image[..., :3].astype(np.float64)
    return np.rint(np.concatenate((values * alpha, alpha * 255), axis=-1)).astype(np.uint8)


def _reach(to_picture: Affine, width: int, height: int, picture: Picture) -> Rect | None:
    """The part of the picture that the image touches, aligned to chroma; None if there is none."""
    corners = np.array(((0, 0, 1), (width, 0, 1), (0, height, 1), (width, height, 1))) @ to_picture.T
    step = picture_step_px(picture)
    low = np.maximum(np.floor(corners.min(axis=0) / step) * step, 0)
    high = np.minimum(np.ceil(corners.max(axis=0)), (picture.width_px, picture.height_px))
    if (low >= high).any():
        return None
    return int(low[0]), int(low[1]), int(high[0]), int(high[1])


def _warp(levels: list[UInt8], to_picture: Affine, rect: Rect) -> UInt8:
    """The image as it falls on `rect`, padded to even sizes, from the level that needs the least shrinking."""
    scale = math.sqrt(abs(np.linalg.det(to_picture[:, :2])))
    level = min(len(levels) - 1, max(0, math.floor(-math.log2(max(scale, 1e-6)))))
    height, width = levels[0].shape[:2]
    level_height, level_width = levels[level].shape[:2]
    matrix = to_picture.copy()
    matrix[:, 0] *= width / level_width
    matrix[:, 1] *= height / level_height
    # cv2 measures from the centre of pixel 0
    matrix[:, 2] += matrix[:, 0] / 2 + matrix[:, 1] / 2 - 0.5 - np.array(rect[:2])
    size = (rect[2] - rect[0] + 1) // 2 * 2, (rect[3] - rect[1] + 1) // 2 * 2
    return np.asarray(cv2.warpAffine(levels[level], matrix, size, flags=cv2.INTER_LINEAR), np.uint8)


def _blend(picture: Picture, rect: Rect, image: UInt8) -> None:
    """Draw a premultiplied image over `rect` of every plane."""
    at = Mask(rect, rect, None)
    for index, plane in enumerate(picture.planes):
        samples = at.cut(plane)
        layer = image if plane.step_x == 1 else cv2.resize(
            image, (image.shape[1] // 2, image.shape[0] // 2), interpolation=cv2.INTER_AREA
        )
        layer = layer[: samples.shape[0], : samples.shape[1]]
        see_through = 1 - layer[..., 3:].astype(np.float32) / 255
        colors: Samples = layer[..., 1:3] if index == 1 else layer[..., : samples.shape[2] if samples.ndim == 3 else 1]
        depth = 257.0 if samples.dtype == np.uint16 else 1.0
        blended = samples.reshape(*samples.shape[:2], -1) * see_through + colors * np.float32(depth)
        samples[...] = np.rint(blended).reshape(samples.shape).astype(samples.dtype)
