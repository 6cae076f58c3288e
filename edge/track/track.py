"""One face over time: what was seen of it, and how it moves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import exp, hypot, sqrt
from typing import NamedTuple

from edge.track.tuning import Tuning
from edge.types import Float32

Box = tuple[float, float, float, float]
"""Centre x, centre y, width, height, pixels."""


class Observation(NamedTuple):
    """A detection in frame number `frame` that belongs to a track.

    box: centre x, centre y, width, height, pixels. landmarks: float32 (5, 2) or None.
    """

    frame: int
    time_s: float
    box: Box
    score: float
    landmarks: Float32 | None


def size_of(box: Box) -> float:
    """Geometric mean of width and height, pixels."""
    return sqrt(box[2] * box[3])


def velocity(observations: Sequence[Observation], end: int, step: int, window_s: float) -> tuple[float, float]:
    """Velocity in pixels per second at observation `end`, looking towards `step` (-1 back, 1 forward) in time.

    Measured to the furthest observation within window_s, at least to the next one; (0, 0) where there is none.
    """
    here = observations[end]
    other = end + step
    if not 0 <= other < len(observations):
        return 0.0, 0.0
    following = other + step
    while 0 <= following < len(observations) and abs(observations[following].time_s - here.time_s) <= window_s:
        other, following = following, following + step
    there = observations[other]
    span_s = here.time_s - there.time_s
    return (here.box[0] - there.box[0]) / span_s, (here.box[1] - there.box[1]) / span_s


def travel(speed: tuple[float, float], elapsed_s: float, size_px: float, tuning: Tuning) -> tuple[float, float]:
    """Displacement in pixels after elapsed_s (either sign) of a motion that decays exponentially, limited."""
    decay_s = tuning.velocity_decay_s
    reach_s = decay_s * (1.0 - exp(-abs(elapsed_s) / decay_s))
    if elapsed_s < 0:
        reach_s = -reach_s
    dx, dy = speed[0] * reach_s, speed[1] * reach_s
    excess = hypot(dx, dy) / (tuning.travel_limit_sizes * size_px)
    return (dx, dy) if excess <= 1.0 else (dx / excess, dy / excess)


class Track:
    """Observations of one face, oldest first. Only the planner changes it.

    barrier: first frame of the shot in which the track began; its lead ends there.
    cut: first frame of the next shot, where its hold ends; None while the shot lasts.
    support: how sure it is that this is a face; each observation adds to it, see `Tuning`. 1 is certain.
    """

    __slots__ = ("barrier", "cut", "identity", "indices", "observations", "shown", "smoothed", "support")

    def __init__(self, identity: int, first: Observation, barrier: int, support: float) -> None:
        self.identity = identity
        self.barrier = barrier
        self.cut: int | None = None
        self.observations = [first]
        self.indices = [first.frame]
        self.smoothed: dict[int, Box] = {}
        self.support = support
        self.shown = False

    @property
    def first(self) -> Observation:
        return self.observations[0]

    @property
    def last(self) -> Observation:
        return self.observations[-1]

    def extend(self, seen: Observation, support: float) -> None:
        """Add a later observation."""
        self.observations.append(seen)
        self.indices.append(seen.frame)
        self.support = min(1.0, self.support + support)

    def extend_back(self, seen: Observation, support: float) -> None:
        """Add an earlier observation."""
        self.observations.insert(0, seen)
        self.indices.insert(0, seen.frame)
        self.support = min(1.0, self.support + support)

    def widen(self, box: Box) -> None:
        """The same face was seen twice in the newest frame: keep what covers both boxes."""
        last = self.last
        self.observations[-1] = last._replace(box=union(last.box, box))

    def position(self, index: int) -> int:
        """Position of the newest observation at or before frame `index`; -1 where all are later."""
        return bisect_right(self.indices, index) - 1

    def forget(self, before_s: float, index: int) -> None:
        """Drop observations older than before_s, but never the last two up to frame `index`: position and velocity."""
        if self.observations[0].time_s >= before_s:
            return
        keep_from = min(self.position(index), len(self.observations) - 1) - 1
        drop = 0
        while drop < keep_from and self.observations[drop].time_s < before_s:
            self.smoothed.pop(self.indices[drop], None)
            drop += 1
        if drop:
            del self.observations[:drop], self.indices[:drop]

    def deserves_s(self, full_s: float, tuning: Tuning) -> float:
        """How much of a hold or lead the track is given: false detections are few and faint, and must not smear.

        Support only grows, so a lead that has begun does not end before the detection that it leads to.
        """
        return max(full_s * self.support, min(full_s, tuning.brief_s))

    def predict(self, time_s: float, tuning: Tuning) -> Box:
        """Where the face is expected at time_s, after the last observation; where it was, if a cut came between."""
        last = self.last
        if self.cut is not None:
            return last.box
        speed = velocity(self.observations, len(self.observations) - 1, -1, tuning.velocity_window_s)
        dx, dy = travel(speed, time_s - last.time_s, size_of(last.box), tuning)
        return last.box[0] + dx, last.box[1] + dy, last.box[2], last.box[3]

    def smooth(self, at: int, tuning: Tuning) -> Box:
        """Box of observation number `at`, averaged over its neighbours in time along their common motion."""
        index = self.indices[at]
        known = self.smoothed.get(index)
        if known is None:
            known = self.smoothed[index] = self._average(at, tuning.smooth_s)
        return known

    def _average(self, at: int, half_width_s: float) -> Box:
        seen, centre = self.observations, self.observations[at]
        low = high = at
        while low > 0 and at - low < 4 and centre.time_s - seen[low - 1].time_s < half_width_s:
            low -= 1
        while high + 1 < len(seen) and high - at < 4 and seen[high + 1].time_s - centre.time_s < half_width_s:
            high += 1
        if low == high:
            return centre.box
        span_s = seen[high].time_s - seen[low].time_s
        vx = (seen[high].box[0] - seen[low].box[0]) / span_s
        vy = (seen[high].box[1] - seen[low].box[1]) / span_s
        x = y = w = h = total = 0.0
        for other in seen[low:high + 1]:
            later_s = other.time_s - centre.time_s
            weight = 1.0 - abs(later_s) / half_width_s
            box = other.box
            x += weight * (box[0] - vx * later_s)
            y += weight * (box[1] - vy * later_s)
            w += weight * box[2]
            h += weight * box[3]
            total += weight
        return x / total, y / total, w / total, h / total


def union(a: Box, b: Box) -> Box:
    """Smallest box around two."""
    left = min(a[0] - a[2] / 2, b[0] - b[2] / 2)
    top = min(a[1] - a[3] / 2, b[1] - b[3] / 2)
    right = max(a[0] + a[2] / 2, b[0] + b[2] / 2)
    bottom = max(a[1] + a[3] / 2, b[1] + b[3] / 2)
    return (left + right) / 2, (top + bottom) / 2, right - left, bottom - top


def grow(box: Box, margin_sizes: float) -> Box:
    """A box with a margin on each side, in sizes of the box."""
    margin = 2 * margin_sizes * size_of(box)
    return box[0], box[1], box[2] + margin, box[3] + margin
