"""Frames that were observed and wait to be planned, with what was found in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edge.track.association import Float64
from edge.track.track import Observation
from edge.types import Float32


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Usable detections of one frame: centre boxes float64 (N, 4), scores float64 (N,), landmarks (N, 5, 2) or None."""

    boxes: Float64
    scores: Float64
    landmarks: Float32 | None

    def take(self, rows: npt.NDArray[np.intp]) -> Candidates:
        points = None if self.landmarks is None else self.landmarks[rows]
        return Candidates(self.boxes[rows], self.scores[rows], points)

    def observation(self, row: int, index: int, time_s: float) -> Observation:
        x, y, w, h = self.boxes[row].tolist()
        points = None if self.landmarks is None else self.landmarks[row]
        return Observation(index, time_s, (x, y, w, h), float(self.scores[row]), points)


@dataclass(slots=True, eq=False)
class PendingFrame:
    """A frame that was observed and not yet planned. leftover: weak detections that no track has used."""

    index: int
    time_s: float
    failed: bool
    leftover: Candidates | None
