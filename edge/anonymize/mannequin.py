"""A mannequin's head in place of each face: a blur goes down first, the head over it, so that what the head does not
reach, or cannot be drawn, stays hidden.

Nothing of the face gets into the head but where its five landmarks are, and what the blur under it shows anyway: how
light it is, from which side, and of what colour.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from edge.anonymize.blur import Blur
from edge.anonymize.masks import Mask, Rect, Samples, picture_step_px
from edge.swap.head import HEIGHT_PX, WIDTH_PX, view
from edge.swap.pose import Pose, front_in_box, pose_of, similarity
from edge.types import Picture, Plane, Region, UInt8

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

_log = logging.getLogger(__name__)

NAME = "mannequin 1"
SMOOTHING = 0.4             # weight of the newest frame in where a head is
LIGHT_SMOOTHING = 0.15      # and in how it is lit: what the mask leaves comes in coarse steps
MAX_TRACKS = 256            # remembered at once
MAX_SCALE = 1.6             # a head that is drawn larger than this is drawn small and enlarged: it is smooth
AMBIENT, DIFFUSE, GLOSS, SHININESS = 0.50, 0.72, 0.12, 24
COLOUR_KEPT = 0.6           # of how far the scene's colour is from grey
CREAM = (0.96, 1.0, 1.05)   # blue, green and red of the paint in white light
ENLARGED = 1.1              # about the middle of the landmarks, so that the head covers most of the mask
DARKEST, LIGHTEST = 0.16, 0.86      # of the range of luma, for the paint


@dataclass(slots=True)
class _Seen:
    """What is remembered of a track. points: landmarks relative to the middle and sides of the box, (5, 2).

    light: see `_light`; tones: see `_tone`, one for each plane.
    """

    points: Float64 | None = None
    light: Float64 | None = None
    tones: list[Float32] | None = None


class Mannequin:
    """Draws heads. The same track keeps the same head, and its movements are smoothed; not thread-safe.

    swapped: tracks on which a head was drawn since `start_frame`.
    """

    def __init__(self, blocks: int) -> None:
        self._base = Blur(blocks)
        self._tracks: OrderedDict[int, _Seen] = OrderedDict()
        self.swapped: list[int] = []

    def start_frame(self) -> None:
        """Forget who was swapped in the frame before."""
        self.swapped = []

    def paint(self, picture: Picture, mask: Mask, region: Region | None = None) -> None:
        """Hide, then draw. What goes wrong while drawing leaves the face hidden."""
        self._base.paint(picture, mask)
        if region is None:
            return
        try:
            self._draw(picture, mask, region)
            self.swapped.append(region.track_id)
        except Exception as error:      # the blur is there already
            _log.debug("track %d: no head is drawn: %s", region.track_id, error)

    def _draw(self, picture: Picture, mask: Mask, region: Region) -> None:
        seen = self._remembered(region.track_id)
        points = _placed(seen, region)
        pose = pose_of(points)
        if pose is None:
            points, pose = front_in_box(region.box), Pose(0.0, 0.0)
        head = view(region.track_id, pose.yaw_deg, pose.pitch_deg)
        middle = points.mean(axis=0)
        to_picture = similarity(head.landmarks, middle + ENLARGED * (points - middle))
        rect = _reach(to_picture, picture)
        if rect is None:
            return
        light, tones = _look(seen, picture, mask)
        shade, alpha = _lit(_warped(head.surface, to_picture, rect), light)
        at = Mask(rect, rect, None)
        for index, plane in enumerate(picture.planes):
            is_chroma = picture.layout == "nv12" and index == 1
            _blend(at.cut(plane), plane, tones[index], None if is_chroma else shade, alpha, picture)

    def _remembered(self, track_id: int) -> _Seen:
        seen = self._tracks.setdefault(track_id, _Seen())
        self._tracks.move_to_end(track_id)
        if len(self._tracks) > MAX_TRACKS:
            self._tracks.popitem(last=False)
        return seen


def _placed(seen: _Seen, region: Region) -> Float64:
    """Landmarks of the head, float64 (5, 2), smoothed within the box, which is smooth already."""
    x1, y1, x2, y2 = region.box
    middle = np.array(((x1 + x2) / 2, (y1 + y2) / 2))
    sides = np.array((max(x2 - x1, 1.0), max(y2 - y1, 1.0)))
    if region.landmarks is not None and len(region.landmarks) == 5:
        fresh = (np.array(region.landmarks, np.float64) - middle) / sides
        if np.isfinite(fresh).all() and np.abs(fresh).max() < 1.5:
            seen.points = fresh if seen.points is None else seen.points + SMOOTHING * (fresh - seen.points)
    if seen.points is None:
        return front_in_box(region.box)
    return np.asarray(seen.points * sides + middle, np.float64)


def _look(seen: _Seen, picture: Picture, mask: Mask) -> tuple[Float64, list[Float32]]:
    """Light and tones under the mask, steady over time."""
    light, tones = _light(mask.cut(picture.planes[0])), [_tone(mask.cut(plane)) for plane in picture.planes]
    if seen.light is not None and seen.tones is not None and len(seen.tones) == len(tones):
        light = seen.light + LIGHT_SMOOTHING * (light - seen.light)
        tones = [old + np.float32(LIGHT_SMOOTHING) * (new - old) for old, new in zip(seen.tones, tones, strict=True)]
    seen.light, seen.tones = light, tones
    return light, tones


def _reach(to_picture: Float64, picture: Picture) -> Rect | None:
    """The part of the picture that the head touches, aligned to chroma; None if there is none."""
    corners = np.array(((0, 0, 1), (WIDTH_PX, 0, 1), (0, HEIGHT_PX, 1), (WIDTH_PX, HEIGHT_PX, 1))) @ to_picture.T
    step = picture_step_px(picture)
    low = np.maximum(np.floor(corners.min(axis=0) / step) * step, 0)
    high = np.minimum(np.ceil(corners.max(axis=0)), (picture.width_px, picture.height_px))
    if not np.isfinite(corners).all() or (low >= high).any():
        return None
    return int(low[0]), int(low[1]), int(high[0]), int(high[1])


def _warped(surface: UInt8, to_picture: Float64, rect: Rect) -> UInt8:
    """The surface as it falls on `rect`, padded to even sizes."""
    scale = math.sqrt(abs(float(np.linalg.det(to_picture[:, :2]))))
    shrink = max(1.0, scale / MAX_SCALE)
    width, height = ((high - low + 1) // 2 * 2 for low, high in ((rect[0], rect[2]), (rect[1], rect[3])))
    matrix = to_picture.copy()
    matrix[:, 2] -= rect[:2]
    matrix /= shrink
    levels = 0
    while scale < 0.5 and levels < 6:           # so that a small head is a mean of its pixels and not a choice of them
        surface = np.asarray(cv2.resize(surface, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), np.uint8)
        scale, levels = scale * 2, levels + 1
    matrix[:, :2] *= 2**levels
    # cv2 measures from the centre of pixel 0
    matrix[:, 2] += matrix[:, 0] / 2 + matrix[:, 1] / 2 - 0.5
    small = math.ceil(width / shrink), math.ceil(height / shrink)
    drawn = cv2.warpAffine(surface, matrix, small, flags=cv2.INTER_LINEAR, borderValue=(128, 128, 255, 0))
    if shrink > 1.0:
        drawn = cv2.resize(drawn, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(drawn, np.uint8)


def _light(samples: Samples) -> Float64:
    """Where the light comes from, a unit vector: towards the side where what the mask left is lighter."""
    luma = samples if samples.ndim == 2 else samples[..., : min(3, samples.shape[2])].mean(axis=-1)
    cells = cv2.resize(np.asarray(luma, np.float32), (4, 4), interpolation=cv2.INTER_AREA)
    mean = max(float(cells.mean()), 1.0)
    across = float(cells[:, 2:].mean() - cells[:, :2].mean()) / mean
    down = float(cells[2:].mean() - cells[:2].mean()) / mean
    light = np.array((max(-0.8, min(0.8, 1.4 * across)), max(-0.9, min(0.5, 0.7 * down - 0.35)), 1.0))
    return np.asarray(light / np.linalg.norm(light), np.float64)


def _lit(surface: UInt8, light: Float64) -> tuple[Float32, Float32]:
    """Brightness relative to the paint's, and alpha from 0 to 1: float32 (H, W) each.

    Lambert's law, and a highlight after Blinn ("Models of light reflection for computer synthesized pictures", 1977).
    """
    x, y = ((surface[..., index].astype(np.float32) - 128) / 127 for index in (0, 1))
    z = np.sqrt(np.maximum(1 - x * x - y * y, 0))
    halfway = light + np.array((0.0, 0.0, 1.0))         # the camera looks along z
    halfway /= np.linalg.norm(halfway)
    (lx, ly, lz), (hx, hy, hz) = light.astype(np.float32), halfway.astype(np.float32)
    diffuse = np.maximum(x * lx + y * ly + z * lz, 0)
    gloss = np.maximum(x * hx + y * hy + z * hz, 0) ** SHININESS
    shade = (AMBIENT + DIFFUSE * diffuse) * (surface[..., 2].astype(np.float32) / 255) + GLOSS * gloss
    return np.asarray(shade, np.float32), np.asarray(surface[..., 3] * np.float32(1 / 255), np.float32)


def _tone(samples: Samples) -> Float32:
    """What the middle of the mask has become, as one value per component: float32 (C,)."""
    height, width = samples.shape[:2]
    rows, columns = (slice(side // 4, max(side * 3 // 4, side // 4 + 1)) for side in (height, width))
    part = samples[rows, columns]
    return np.asarray(part.reshape(-1, 1 if samples.ndim == 2 else samples.shape[2]).mean(axis=0), np.float32)


def _blend(
    samples: Samples, plane: Plane, tone: Float32, shade: Float32 | None, alpha: Float32, picture: Picture
) -> None:
    """Paint one plane. shade: None for chroma."""
    height, width = samples.shape[:2]
    top = 65535.0 if samples.dtype == np.uint16 else 255.0
    if plane.step_x > 1:
        alpha = np.asarray(cv2.resize(alpha, (alpha.shape[1] // 2, alpha.shape[0] // 2), interpolation=cv2.INTER_AREA))
    alpha = alpha[:height, :width, None]
    if shade is None:
        head = 128 + COLOUR_KEPT * (tone - 128) + np.array((-3.0, 3.0), np.float32)       # as CREAM, about
    else:
        black = 16.0 if picture.layout == "nv12" and not picture.full_range else 0.0
        grey = float(tone[:3].mean())
        paint = grey + COLOUR_KEPT * (tone[:3] - grey)
        if len(paint) == 3:
            paint = paint * np.array(CREAM, np.float32)
        level = min(max(grey - black, DARKEST * top), LIGHTEST * top) / max(grey - black, 1e-3)
        lightest = 235.0 if black else top
        head = np.minimum(black + (paint - black) * np.float32(level) * shade[:height, :width, None], lightest)
    before = samples.reshape(height, width, -1)
    colours = before[..., : head.shape[-1]]
    colours[...] = np.rint(colours + (head - colours) * alpha).clip(0, top).astype(samples.dtype)
    if before.shape[-1] == 4:       # what is drawn is opaque
        before[..., 3:] = np.maximum(before[..., 3:], np.rint(alpha * top).astype(samples.dtype))
