"""What a reader finds in feature maps, before overlapping boxes are merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from edge.errors import DetectorError
from edge.graph.names import map_name, padded_channels
from edge.models.description import ModelDescription
from edge.types import Float32


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Faces in detector-input pixels, unordered, overlapping.

    boxes: float32 (N, 4), x1 y1 x2 y2. scores: float32 (N,). landmarks: float32 (N, 5, 2) in the model's own order, or
    None where it gives none.
    """

    boxes: Float32
    scores: Float32
    landmarks: Float32 | None


class Reader(Protocol):
    """Turns the feature maps of one run into candidates with a score of at least `min_score`.

    maps: ``stride_N`` -> float32 (1, C, H / N, W / N), see `edge.graph.heads`. Raises DetectorError for any other
    shape or type, for a map that is missing, and for numbers that are not finite.
    """

    def __call__(
        self, maps: Mapping[str, Float32], model: ModelDescription, height_px: int, width_px: int, min_score: float
    ) -> Candidates: ...


def feature_map(maps: Mapping[str, Float32], model: ModelDescription, stride: int, rows: int, columns: int) -> Float32:
    """The map of `stride` as (channels, rows * columns), its unused channels cut off.

    Raises DetectorError when it is not float32 (1, C, rows, columns) of finite numbers.
    """
    name = map_name(stride)
    found = maps.get(name) if isinstance(maps, Mapping) else None
    shape = (1, padded_channels(model.channels), rows, columns)
    if not isinstance(found, np.ndarray) or found.dtype != np.float32 or found.shape != shape:
        what = f"{found.dtype} {found.shape}" if isinstance(found, np.ndarray) else type(found).__name__
        raise DetectorError(f"detector output {name} is {what}, expected float32 {shape}")
    flat: Float32 = found.reshape(shape[1], -1)[: model.channels]
    # A sum is not finite if, and unless it overflows only if, one of its terms is not; ten times faster than isfinite.
    with np.errstate(all="ignore"):
        if not np.isfinite(flat.sum(dtype=np.float32)) and not np.isfinite(flat).all():
            raise DetectorError(f"detector output {name} has numbers that are not finite")
    return flat


def logit(probability: float) -> float:
    """Inverse of the logistic function, so that a threshold can be applied before it. 0 and below give -infinity."""
    if probability <= 0:
        return -np.inf
    if probability >= 1:
        return np.inf
    return float(np.log(probability / (1 - probability)))


def sigmoid(values: Float32) -> Float32:
    """Logistic function of finite numbers, without overflow."""
    result: Float32 = (0.5 * (1 + np.tanh(0.5 * values))).astype(np.float32)
    return result


def joined(parts: list[Candidates], landmarks: bool) -> Candidates:
    """Candidates of several maps as one."""
    points: Float32 | None
    if not parts:
        points = np.zeros((0, 5, 2), np.float32) if landmarks else None
        return Candidates(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), points)
    if len(parts) == 1:
        return parts[0]
    points = np.concatenate([part.landmarks for part in parts if part.landmarks is not None]) if landmarks else None
    return Candidates(
        np.concatenate([part.boxes for part in parts]), np.concatenate([part.scores for part in parts]), points
    )
