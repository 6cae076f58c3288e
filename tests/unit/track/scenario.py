"""Synthetic detections for the planner, and a run that plans as the pipeline does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edge.settings import TrackSettings
from edge.track.planner import MaskPlanner
from edge.types import Detections, Region

WIDTH_PX, HEIGHT_PX = 1920, 1080
THRESHOLD = 0.5
STRONG, WEAK = 0.93, 0.3

Face = tuple[float, float, float, float]
"""Centre x, centre y, side in pixels, score."""


def detections(faces: Sequence[Face], landmarks: bool = False) -> Detections:
    """Square boxes; landmarks, where asked for, are five times the centre."""
    rows = np.array(faces, np.float32).reshape(-1, 4)
    half = rows[:, 2:3] / 2
    boxes = np.concatenate([rows[:, :2] - half, rows[:, :2] + half], axis=1)
    points = np.repeat(rows[:, None, :2], 5, axis=1) if landmarks else None
    return Detections(boxes, rows[:, 3].copy(), points)


def make_planner(threshold: float = THRESHOLD, **settings: float) -> MaskPlanner:
    return MaskPlanner(TrackSettings(**settings), threshold, WIDTH_PX, HEIGHT_PX)


def plan_all(frames: Sequence[Sequence[Face]], times_s: Sequence[float] | float = 30.0, cuts: Sequence[int] = (),
             failures: Sequence[int] = (), planner: MaskPlanner | None = None,
             landmarks: bool = False) -> list[tuple[Region, ...]]:
    """Regions of each frame. times_s: times of the frames, or frames per second."""
    planner = planner or make_planner()
    times = [n / times_s for n in range(len(frames))] if isinstance(times_s, float | int) else times_s
    plans: list[tuple[Region, ...]] = []
    for n, (faces, time_s) in enumerate(zip(frames, times, strict=True)):
        if n in failures:
            planner.observe_failure(n, time_s, n in cuts)
        else:
            planner.observe(n, time_s, detections(faces, landmarks), n in cuts)
        while len(plans) <= n and planner.ready(len(plans)):
            plans.append(planner.plan(len(plans)))
    plans.extend(planner.plan(n) for n in range(len(plans), len(frames)))
    return plans


def covered(regions: Sequence[Region], face: Face, margin_px: float = 0.01) -> bool:
    """Whether one region contains the whole box of a face."""
    x, y, side, _ = face
    return any(r.box[0] - margin_px <= x - side / 2 and r.box[1] - margin_px <= y - side / 2
               and r.box[2] + margin_px >= x + side / 2 and r.box[3] + margin_px >= y + side / 2 for r in regions)


def seen_only(path: Callable[[int], Face], frames: int, visible: Sequence[int] | range) -> list[list[Face]]:
    """Frames with one face on `path`, detected in `visible` only."""
    return [[path(n)] if n in visible else [] for n in range(frames)]
