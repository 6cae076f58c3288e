"""A mannequin's head: a shape made of formulas, seen from any side. No photograph, no scan, no weights.

Coordinates are those of a picture of the head from the front: x to the right, y down, z towards the camera, and the
distance between the pupils is 0.74. Proportions of eyes, nose and mouth are those of the five points to which face
recognisers align (ArcFace's template), so that the head lies on a face as its landmarks say.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from edge.types import UInt8

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

WIDTH_PX, HEIGHT_PX = 280, 312
PX_PER_UNIT = 88.0
CENTRE_PX = (WIDTH_PX / 2, HEIGHT_PX / 2)
STEP_DEG = 4                # between views: less than the eye notices from one frame to the next
MAX_YAW_DEG, MAX_PITCH_DEG = 64, 32
_ROWS, _COLUMNS = 430, 540
_SMOOTH_ROWS = 14

EYE_X, EYE_Y, NOSE_Y, MOUTH_X, MOUTH_Y = 0.37, -0.07, 0.36, 0.30, 0.79
# Half widths of the skull from crown to chin, and how far its front is from the axis; above and below the head closes
# like an ellipsoid.
_CROWN_Y, _CHIN_Y = -1.56, 1.5
_PROFILE_Y = (-1.6, -0.5, -0.1, 0.3, 0.6, 0.9, 1.15, 1.32, 1.5)
_HALF_WIDTH = (0.98, 0.98, 0.97, 0.93, 0.87, 0.77, 0.65, 0.56, 0.5)
_FRONT = (1.03, 1.03, 1.0, 0.99, 0.98, 0.97, 0.97, 0.96, 0.95)


@dataclass(frozen=True, slots=True)
class Build:
    """What tells one mannequin from another; 1 is the average."""

    width: float = 1.0
    jaw: float = 1.0
    nose: float = 1.0
    lips: float = 1.0
    brow: float = 1.0


BUILDS = (
    Build(), Build(0.96, 0.92, 1.1, 0.85, 0.9), Build(1.05, 1.1, 0.95, 1.0, 1.3),
    Build(0.98, 0.9, 0.85, 1.25, 0.7), Build(1.03, 1.0, 1.15, 0.8, 1.2), Build(0.95, 1.02, 0.9, 1.1, 1.0),
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The head from one side, WIDTH_PX x HEIGHT_PX.

    surface: uint8 (H, W, 4): x and y of the unit normal as 128 + 127 * value, how light its paint is (255: as light as
    the skin), and alpha. landmarks: float64 (5, 2) in pixels, (0, 0) being the corner of the first one; the order is
    that of `Detections`.
    """

    surface: UInt8
    landmarks: Float64


def view(build: int, yaw_deg: float, pitch_deg: float) -> View:
    """The nearest of the views that are kept. yaw: to the right in the picture; pitch: down."""
    yaw, pitch = (max(-limit, min(limit, round(angle / STEP_DEG) * STEP_DEG))
                  for angle, limit in ((yaw_deg, MAX_YAW_DEG), (pitch_deg, MAX_PITCH_DEG)))  # fmt: skip
    return _view(build % len(BUILDS), yaw, pitch)


@lru_cache(maxsize=128)     # 45 MB
def _view(build: int, yaw_deg: int, pitch_deg: int) -> View:
    points, normals, paint = _surface(build)
    turn = rotation(yaw_deg, pitch_deg).astype(np.float32)
    front = np.flatnonzero(turn[2] @ normals > 0)
    x, y, z = turn @ points[:, front]
    order = np.argsort(z)                               # the nearest is drawn last
    columns = (x[order] * PX_PER_UNIT + CENTRE_PX[0]).astype(np.intp).clip(0, WIDTH_PX - 1)
    rows = (y[order] * PX_PER_UNIT + CENTRE_PX[1]).astype(np.intp).clip(0, HEIGHT_PX - 1)
    front = front[order]
    values = np.ones((len(front), 4), np.float32)
    values[:, :2], values[:, 2] = (turn[:2] @ normals[:, front]).T, paint[front]
    drawn = np.zeros((HEIGHT_PX * WIDTH_PX, 4), np.float32)
    drawn[rows * WIDTH_PX + columns] = values
    return View(_finished(drawn.reshape(HEIGHT_PX, WIDTH_PX, 4)), landmarks_of(yaw_deg, pitch_deg))


def _finished(drawn: Float32) -> UInt8:
    """Holes closed, edges softened, as bytes."""
    weight = cv2.GaussianBlur(drawn[..., 3], (0, 0), 1.0)
    smooth = cv2.GaussianBlur(drawn * drawn[..., 3:], (0, 0), 1.0) / np.maximum(weight, 1e-6)[..., None]
    solid = cv2.morphologyEx((weight > 0.35).astype(np.uint8), cv2.MORPH_CLOSE, np.ones((9, 9), np.uint8))
    outlines, _ = cv2.findContours(solid, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    solid = np.zeros_like(solid)            # of several pieces the largest, without holes
    cv2.drawContours(solid, [max(outlines, key=cv2.contourArea)], 0, 1, cv2.FILLED)
    alpha = cv2.GaussianBlur(cv2.erode(solid, np.ones((3, 3), np.uint8)).astype(np.float32), (0, 0), 1.6)
    surface = np.empty((HEIGHT_PX, WIDTH_PX, 4), np.uint8)
    surface[..., :2] = np.rint(128 + 127 * smooth[..., :2].clip(-1, 1))
    surface[..., 2] = np.rint(255 * smooth[..., 2].clip(0, 1))
    surface[..., 3] = np.rint(255 * alpha.clip(0, 1))
    return surface


def rotation(yaw_deg: float, pitch_deg: float) -> Float64:
    """3x3: first the head is pitched, then turned."""
    yaw, pitch = np.radians((yaw_deg, pitch_deg))
    around_y = np.array(((np.cos(yaw), 0, np.sin(yaw)), (0, 1, 0), (-np.sin(yaw), 0, np.cos(yaw))))
    around_x = np.array(((1, 0, 0), (0, np.cos(pitch), np.sin(pitch)), (0, -np.sin(pitch), np.cos(pitch))))
    return np.asarray(around_y @ around_x, np.float64)


def landmarks_of(yaw_deg: float, pitch_deg: float) -> Float64:
    """float64 (5, 2), pixels of a view."""
    seen = LANDMARKS @ rotation(yaw_deg, pitch_deg).T
    return np.asarray(seen[:, :2] * PX_PER_UNIT + CENTRE_PX, np.float64)


def _bump(x: Float64, y: Float64, at: tuple[float, float], size: tuple[float, float]) -> Float64:
    """1 at `at`, falling off like a bell of this size."""
    return np.asarray(np.exp(-(((x - at[0]) / size[0]) ** 2) - ((y - at[1]) / size[1]) ** 2), np.float64)


def _pair(x: Float64, y: Float64, at: tuple[float, float], size: tuple[float, float]) -> Float64:
    """The same on both sides."""
    return _bump(x, y, at, size) + _bump(x, y, (-at[0], at[1]), size)


def _relief(x: Float64, y: Float64, build: Build) -> Float64:
    """What a face adds to the skull, towards the camera."""
    along = ((y + 0.22) / (NOSE_Y + 0.22)).clip(0, 1)                       # of the nose, from its root to its tip
    fall = 1 / (1 + np.exp((y - NOSE_Y - 0.06) / 0.022))                    # under the tip
    rise = 1 / (1 + np.exp(-(y + 0.26) / 0.06))
    nose = (0.07 + 0.27 * build.nose * along**1.6) * np.exp(-((x / (0.085 + 0.06 * along)) ** 2)) * fall * rise
    lip_line = MOUTH_Y + 0.015 * np.cos(x * 9)
    relief = nose + 0.10 * build.nose * _pair(x, y, (0.135, NOSE_Y + 0.01), (0.07, 0.065))
    relief += 0.065 * build.brow * _pair(x, y, (0.33, -0.27), (0.27, 0.09))
    relief -= 0.15 * _pair(x, y, (EYE_X - 0.03, EYE_Y - 0.03), (0.2, 0.12))
    relief += 0.115 * _pair(x, y, (EYE_X, EYE_Y), (0.135, 0.085))           # closed lids over the eyes
    relief -= 0.02 * _pair(x, y, (EYE_X, EYE_Y + 0.115), (0.14, 0.03))
    relief += 0.05 * _pair(x, y, (0.56, 0.26), (0.24, 0.2))                 # cheekbones
    relief -= 0.05 * _pair(x, y, (0.55, 0.72), (0.2, 0.25))
    relief += 0.085 * build.lips * np.exp(-(((y - lip_line + 0.06) / 0.052) ** 2) - (x / 0.27) ** 4)
    relief += 0.10 * build.lips * np.exp(-(((y - lip_line - 0.065) / 0.06) ** 2) - (x / 0.23) ** 4)
    relief -= 0.05 * np.exp(-(((y - lip_line) / 0.016) ** 2) - (x / 0.29) ** 4)
    relief -= 0.05 * _bump(x, y, (0, 0.99), (0.3, 0.055))
    relief -= 0.025 * _bump(x, y, (0, 0.57), (0.05, 0.1))                   # between nose and lips
    return np.asarray(relief + 0.08 * build.jaw * _bump(x, y, (0, 1.22), (0.27, 0.15)), np.float64)


def _paint(x: Float64, y: Float64, build: Build) -> Float64:
    """How light the paint is: brows, lashes and lips are darker."""
    brow_y = -0.335 + 0.35 * (np.abs(x) - 0.40) ** 2
    brow = np.exp(-(((y - brow_y) / (0.034 * build.brow)) ** 2) - ((np.abs(x) - 0.40) / 0.21) ** 4)
    lash = np.exp(-(((y - EYE_Y - 0.045 + 0.25 * (np.abs(x) - EYE_X) ** 2) / 0.014) ** 2)
                  - ((np.abs(x) - EYE_X) / 0.135) ** 6)  # fmt: skip
    lips = np.exp(-(((y - MOUTH_Y) / 0.10) ** 4) - (x / 0.28) ** 4)
    line = np.exp(-(((y - MOUTH_Y - 0.015 * np.cos(x * 9)) / 0.014) ** 2) - (x / 0.28) ** 6)
    nostrils = _pair(x, y, (0.075, NOSE_Y + 0.085), (0.04, 0.018))
    return np.asarray(1 - 0.42 * brow - 0.55 * lash - 0.2 * lips - 0.3 * line - 0.35 * nostrils, np.float64)


@lru_cache(maxsize=len(BUILDS))
def _surface(number: int) -> tuple[Float32, Float32, Float32]:
    """Points (3, N), unit normals (3, N) and paint (N,) of all but the very back."""
    build = BUILDS[number]
    y = np.linspace(_CROWN_Y, _CHIN_Y, _ROWS)[:, None]
    around = np.radians(np.linspace(-165, 165, _COLUMNS))[None]
    jaw = 1 + (build.jaw - 1) * ((y - 0.4) / 0.8).clip(0, 1)
    half_width, front = _profile(y, _HALF_WIDTH) * build.width * jaw, _profile(y, _FRONT)
    x = half_width * np.sin(around)
    z = front * np.cos(around)
    tall = np.broadcast_to(y, x.shape)
    # smooth enough to be made for every other point
    relief = cv2.resize(_relief(x[::2, ::2], tall[::2, ::2], build), x.shape[::-1], interpolation=cv2.INTER_CUBIC)
    z = z + relief * np.cos(around).clip(0, 1) ** 0.5
    points = np.stack((x, tall, z), axis=-1)
    normals = np.cross(np.gradient(points, axis=0), np.gradient(points, axis=1))
    normals /= np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-9)
    if normals[_ROWS // 2, _COLUMNS // 2, 2] < 0:
        normals = -normals
    paint = _paint(x, tall, build).reshape(-1)
    flat = (np.ascontiguousarray(values.reshape(-1, 3).T, np.float32) for values in (points, normals))
    return (*flat, paint.astype(np.float32))  # type: ignore[return-value]


def _profile(y: Float64, values: tuple[float, ...]) -> Float64:
    """(N, 1) at heights (N, 1), without the corners that straight pieces have, closed at both ends."""
    soft = cv2.GaussianBlur(np.interp(y, _PROFILE_Y, values), (0, 0), sigmaX=0.01, sigmaY=_SMOOTH_ROWS,
                            borderType=cv2.BORDER_REPLICATE).reshape(-1, 1)  # fmt: skip
    return np.asarray(soft * _closing(y), np.float64)


def _closing(y: Float64) -> Float64:
    crown = ((y + 0.5).clip(None, 0) / (_CROWN_Y + 0.5)) ** 2
    chin = ((y - 1.12).clip(0, None) / (_CHIN_Y - 1.12)) ** 2
    return np.asarray(np.sqrt((1 - crown - chin).clip(0, 1)), np.float64)


def _depth(x: float, y: float) -> float:
    half_width, front = (float(np.interp(y, _PROFILE_Y, values)) for values in (_HALF_WIDTH, _FRONT))
    skull = front * float(np.sqrt(max(0.0, 1 - (x / half_width) ** 2)))
    return skull + float(_relief(np.array(x), np.array(y), BUILDS[0]))


LANDMARKS: Float64 = np.array([
    (x, y, _depth(x, y))
    for x, y in ((-EYE_X, EYE_Y), (EYE_X, EYE_Y), (0.0, NOSE_Y), (-MOUTH_X, MOUTH_Y), (MOUTH_X, MOUTH_Y))
])  # fmt: skip
"""float64 (5, 3): right eye, left eye, tip of the nose, right and left corner of the mouth, as the person has them."""
