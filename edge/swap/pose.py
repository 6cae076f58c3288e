"""Where a head is and where it looks, from five landmarks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edge.swap.head import LANDMARKS, landmarks_of

Float64 = npt.NDArray[np.float64]

_CENTRED = LANDMARKS - LANDMARKS.mean(axis=0)
_INVERSE = np.linalg.pinv(_CENTRED)
MAX_RESIDUAL = 0.3          # of the distance that points have from their middle
MAX_TURN_DEG = 75.0


@dataclass(frozen=True, slots=True)
class Pose:
    """yaw to the right in the picture, pitch down, degrees."""

    yaw_deg: float
    pitch_deg: float


def pose_of(points: Float64) -> Pose | None:
    """The pose of a face with these landmarks, float64 (5, 2), pixels; None where they cannot be a face's.

    Weak perspective: the 2x3 matrix that maps the head's own landmarks to these by least squares, then the nearest
    rotation (Arun, Huang and Blostein, "Least-squares fitting of two 3-D point sets", 1987).
    """
    if points.shape != (5, 2) or not np.isfinite(points).all():
        return None
    seen = points - points.mean(axis=0)
    size = float(np.linalg.norm(seen))
    if size < 1e-6:
        return None
    mapping = (_INVERSE @ seen).T                                   # 2x3
    if np.linalg.norm(seen - _CENTRED @ mapping.T) > MAX_RESIDUAL * size:
        return None
    left, scales, right = np.linalg.svd(mapping, full_matrices=False)
    if scales[1] < 0.2 * scales[0]:
        return None
    first, second = left @ right
    third = np.cross(first, second)                                 # towards the camera
    roll = math.atan2(seen[1, 1] - seen[0, 1], seen[1, 0] - seen[0, 0])
    turn = np.array(((math.cos(roll), math.sin(roll), 0), (-math.sin(roll), math.cos(roll), 0), (0, 0, 1)))
    forward = turn @ np.array((first[2], second[2], third[2]))      # where the head's own z axis points
    yaw = math.degrees(math.atan2(forward[0], forward[2]))
    pitch = math.degrees(math.asin(max(-1.0, min(1.0, float(forward[1])))))
    return Pose(yaw, pitch) if max(abs(yaw), abs(pitch)) <= MAX_TURN_DEG else None


def similarity(source: Float64, target: Float64) -> Float64:
    """float64 (2, 3): turn, size and shift that map `source` points (N, 2) to `target` best, without mirroring.

    Least squares (Umeyama, 1991), in the closed form that two dimensions have. Raises ValueError for one point.
    """
    middle, aim = source.mean(axis=0), target.mean(axis=0)
    a, b = source - middle, target - aim
    power = float((a * a).sum())
    if power < 1e-12:
        raise ValueError("the points are all the same")
    along = float((a * b).sum()) / power
    across = float((a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]).sum()) / power
    linear = np.array(((along, -across), (across, along)))
    return np.column_stack((linear, aim - linear @ middle))


def front_in_box(box: tuple[float, float, float, float]) -> Float64:
    """float64 (5, 2): landmarks of a head that looks at the camera from within a face box."""
    x1, y1, x2, y2 = box
    points = landmarks_of(0, 0)
    spread = points[1, 0] - points[0, 0]
    scale = 0.46 * (x2 - x1) / spread           # the pupils' distance is about that share of a face's width
    middle = np.array((points[:, 0].mean(), points[:, 1].mean()))
    return np.asarray((points - middle) * scale + ((x1 + x2) / 2, y1 + 0.53 * (y2 - y1)), np.float64)
