"""Where to mask one track in one frame, given what was seen of it before and after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge.track.track import Box, Track, grow, size_of, travel, union, velocity
from edge.track.tuning import Tuning
from edge.types import Float32, RegionOrigin

ROUNDING_S = 1e-6
"""Differences of times are not exact."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The frame to plan."""

    index: int
    time_s: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What the placement needs to know about the run. Times in seconds, picture size in pixels."""

    hold_s: float
    lead_s: float
    width_px: int
    height_px: int


Placement = tuple[Box, RegionOrigin, Float32 | None]


def place(track: Track, moment: Moment, limits: Limits, tuning: Tuning) -> Placement | None:
    """Box to mask, why, and landmarks (5, 2) where they are fresh; None where the track is not in this frame."""
    at = track.position(moment.index)
    seen = track.observations
    if at < 0:
        return _lead(track, moment, limits, tuning)
    here = seen[at]
    if here.frame == moment.index:
        return union(here.box, track.smooth(at, tuning)), "detected", here.landmarks
    if at + 1 < len(seen):
        return _bridge(track, at, moment.time_s, tuning)
    return _hold(track, moment, limits, tuning)


def _bridge(track: Track, at: int, time_s: float, tuning: Tuning) -> Placement:
    """Between two observations: a straight line, and a margin that is largest half-way.

    With both ends known and an acceleration of at most a, nothing strays further from the line than
    a / 2 * (time since one end) * (time to the other).
    """
    before, after = track.observations[at], track.observations[at + 1]
    a, b = track.smooth(at, tuning), track.smooth(at + 1, tuning)
    since_s, until_s = time_s - before.time_s, after.time_s - time_s
    share = since_s / (since_s + until_s)
    x, y, w, h = (p + (q - p) * share for p, q in zip(a, b, strict=True))
    margin = min(tuning.margin_limit_sizes,
                 tuning.drift_sizes_per_s * min(since_s, until_s)
                 + tuning.acceleration_sizes_per_s2 / 2 * since_s * until_s)
    landmarks: Float32 | None = None
    if before.landmarks is not None and after.landmarks is not None and since_s + until_s <= tuning.landmark_hold_s:
        landmarks = before.landmarks + (after.landmarks - before.landmarks) * share
    return grow((x, y, w, h), margin), "bridged", landmarks


def _hold(track: Track, moment: Moment, limits: Limits, tuning: Tuning) -> Placement | None:
    """After the last observation."""
    last = track.last
    if track.cut is not None and moment.index > track.cut:
        return None
    elapsed_s = moment.time_s - last.time_s
    frames = moment.index - last.frame
    hold_s = track.deserves_s(limits.hold_s, tuning)
    if elapsed_s > hold_s + ROUNDING_S and frames > tuning.hold_frames:
        return None
    end = len(track.observations) - 1
    speed = velocity(track.observations, end, -1, tuning.velocity_window_s)
    return _extrapolate(track, end, speed, elapsed_s, frames > tuning.hold_frames, "held", limits, tuning)


def _lead(track: Track, moment: Moment, limits: Limits, tuning: Tuning) -> Placement | None:
    """Before the first observation; never further back than one frame into the shot before."""
    first = track.first
    if moment.index < track.barrier - 1:
        return None
    ahead_s = first.time_s - moment.time_s
    frames = first.frame - moment.index
    lead_s = track.deserves_s(limits.lead_s, tuning)
    if ahead_s > lead_s + ROUNDING_S and frames > tuning.lead_frames:
        return None
    speed = velocity(track.observations, 0, 1, tuning.velocity_window_s)
    return _extrapolate(track, 0, speed, -ahead_s, frames > tuning.lead_frames, "lead", limits, tuning)


def _extrapolate(track: Track, at: int, speed: tuple[float, float], elapsed_s: float, may_end: bool,
                 origin: RegionOrigin, limits: Limits, tuning: Tuning) -> Placement | None:
    """Around where it was seen and where it may have gone, with a margin that grows until it reaches its limit."""
    base, seen = track.smooth(at, tuning), track.observations[at]
    dx, dy = travel(speed, elapsed_s, size_of(base), tuning)
    moved = base[0] + dx, base[1] + dy, base[2], base[3]
    apart_s = abs(elapsed_s)
    if may_end and apart_s > tuning.border_hold_s and _visible_share(moved, limits) < tuning.border_visible_share:
        return None
    margin = min(tuning.margin_limit_sizes,
                 tuning.drift_sizes_per_s * apart_s + tuning.acceleration_sizes_per_s2 / 2 * apart_s * apart_s)
    landmarks: Float32 | None = None
    if seen.landmarks is not None and apart_s <= tuning.landmark_hold_s:
        landmarks = seen.landmarks + np.array((dx, dy), np.float32)
    return union(base, grow(moved, margin)), origin, landmarks


def _visible_share(box: Box, limits: Limits) -> float:
    """Share of a box that lies inside the picture, 0 to 1."""
    width = min(box[0] + box[2] / 2, limits.width_px) - max(box[0] - box[2] / 2, 0.0)
    height = min(box[1] + box[3] / 2, limits.height_px) - max(box[1] - box[3] / 2, 0.0)
    return max(width, 0.0) * max(height, 0.0) / (box[2] * box[3])

