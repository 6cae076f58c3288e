"""What to mask in a frame, given the frames before and after it."""

from __future__ import annotations

from collections import deque
from math import isfinite

import numpy as np
import numpy.typing as npt

from edge.settings import TrackSettings
from edge.track.association import Float64, match, overlaps, to_centres
from edge.track.pending import Candidates, PendingFrame
from edge.track.placement import Limits, Moment, Placement, place
from edge.track.track import Track
from edge.track.tuning import Tuning
from edge.types import Detections, Region

WHOLE_MARGIN = 1.0
"""A frame hidden as one region: how far it reaches over each border, in picture sizes, so that an ellipse covers it."""

TIME_ROUNDING_S = 1e-6
"""Differences of times in seconds are rounded: six frames at 30 fps are a hair more or less than 0.2 s."""


class MaskPlanner:
    """Tracks faces through the frames of one source and says what to mask in each.

    Use: `observe` every frame in order; `plan` every frame in order, once `ready` says so or the source has ended.
    Planning earlier is allowed: masks then lean on the past alone. Not thread-safe.
    Memory is bounded by the frames between the two calls and the faces in them.
    """

    def __init__(self, settings: TrackSettings, score_threshold: float, width_px: int, height_px: int,
                 tuning: Tuning | None = None) -> None:
        """score_threshold: a track starts at this score; width_px, height_px: size of the stored picture."""
        self._tuning = tuning or Tuning()
        self._look_ahead_s = settings.look_ahead_s
        self._threshold = score_threshold
        self._keep_threshold = settings.keep_ratio * score_threshold
        self._limits = Limits(settings.hold_s, settings.look_ahead_s * self._tuning.lead_share,
                              width_px, height_px)
        self._memory_s = settings.hold_s + settings.look_ahead_s
        self._next_identity = 1
        self._tracks_seen = 0
        self.reset()

    def reset(self) -> None:
        """Forget all frames and tracks, as at the start of an epoch. Track numbers and `tracks_seen` go on."""
        self._tracks: list[Track] = []
        self._pending: deque[PendingFrame] = deque()
        self._barrier = 0
        self._newest_index = -1
        self._newest_s = float("-inf")
        self._step_s = 1 / 30

    @property
    def tracks_seen(self) -> int:
        """Tracks that were part of a plan so far."""
        return self._tracks_seen

    def ready(self, index: int) -> bool:
        """Whether enough frames after `index` were observed to plan it with the full look-ahead."""
        for frame in self._pending:
            if frame.index == index:
                enough = self._newest_index - index >= self._tuning.lead_frames or self._look_ahead_s == 0
                return enough and self._newest_s - frame.time_s >= self._look_ahead_s - 1e-6
        return False

    def observe(self, index: int, pts_s: float, detections: Detections, cut: bool = False) -> None:
        """Take in the detections of the next frame. cut: a new shot begins with this frame.

        Detections that are no boxes (not finite, or empty) make the whole frame masked.
        """
        time_s = self._clock(index, pts_s)
        if cut:
            self._end_shot(index)
        boxes = np.asarray(detections.boxes, np.float64)
        sane = bool(np.isfinite(boxes).all() and np.isfinite(detections.scores).all()
                    and (boxes[:, 2:] > boxes[:, :2]).all())
        frame = PendingFrame(index, time_s, failed=not sane, leftover=None)
        self._pending.append(frame)
        if sane and len(detections):
            rows = np.flatnonzero(detections.scores >= self._keep_threshold)
            if len(rows):
                whole = Candidates(to_centres(boxes), np.asarray(detections.scores, np.float64), detections.landmarks)
                self._associate(frame, whole.take(rows))

    def observe_failure(self, index: int, pts_s: float, cut: bool = False) -> None:
        """The detector failed on the next frame. It is planned as wholly masked; tracks bridge it."""
        self._pending.append(PendingFrame(index, self._clock(index, pts_s), failed=True, leftover=None))
        if cut:
            self._end_shot(index)

    def plan(self, index: int) -> tuple[Region, ...]:
        """Regions to mask in frame `index`, which must have been observed; frames before it are forgotten.

        Raises ValueError for a frame that was not observed or was planned before.
        """
        while self._pending and self._pending[0].index < index:
            self._pending.popleft()
        if not self._pending or self._pending[0].index != index:
            raise ValueError(f"frame {index} was not observed, or was planned before")
        frame = self._pending.popleft()
        moment = Moment(index, frame.time_s)
        regions = [self._whole()] if frame.failed else []
        kept: list[Track] = []
        for track in self._tracks:
            placed = place(track, moment, self._limits, self._tuning)
            if placed is not None:
                regions.append(self._region(track, placed))
            track.forget(frame.time_s - self._tuning.velocity_window_s - self._tuning.smooth_s, index)
            if placed is not None or track.last.frame >= index or self._is_open(track):
                kept.append(track)
        self._tracks = kept
        return tuple(regions)

    def _region(self, track: Track, placed: Placement) -> Region:
        if not track.shown:
            track.shown = True
            self._tracks_seen += 1
        (x, y, w, h), origin, points = placed
        landmarks = None if points is None else tuple((px, py) for px, py in points.tolist())
        return Region((x - w / 2, y - h / 2, x + w / 2, y + h / 2), track.identity, origin, landmarks)

    def _whole(self) -> Region:
        w, h = self._limits.width_px, self._limits.height_px
        return Region((-WHOLE_MARGIN * w, -WHOLE_MARGIN * h, (1 + WHOLE_MARGIN) * w, (1 + WHOLE_MARGIN) * h), 0, "held")

    def _clock(self, index: int, pts_s: float) -> float:
        """Strictly increasing time of a frame; where the source's own does not increase, the usual step is used."""
        if index <= self._newest_index:
            raise ValueError(f"frame {index} was observed after frame {self._newest_index}")
        first = self._newest_index < 0
        time_s = float(pts_s) if isfinite(pts_s) else (0.0 if first else self._newest_s + self._step_s)
        if not first:
            if time_s <= self._newest_s:
                time_s = self._newest_s + self._step_s
            else:
                self._step_s = min(time_s - self._newest_s, 1.0)
        self._newest_index, self._newest_s = index, time_s
        return time_s

    def _end_shot(self, index: int) -> None:
        self._barrier = index
        for track in self._tracks:
            if track.cut is None:
                track.cut = index

    def _is_open(self, track: Track) -> bool:
        """Whether a later detection may still continue the track."""
        return (self._newest_s - track.last.time_s <= self._memory_s
                or self._newest_index - track.last.frame <= self._tuning.hold_frames)

    def _associate(self, frame: PendingFrame, found: Candidates) -> None:
        """Continue tracks, start new ones from strong detections, and keep weak leftovers for tracing back."""
        tuning = self._tuning
        strong = found.scores >= self._threshold
        going = [track for track in self._tracks if self._is_open(track)]
        used: list[tuple[int, Track]] = []
        if going:
            predicted = np.array([track.predict(frame.time_s, tuning) for track in going])
            gates, overlap_gates = self._gates(going, strong, frame)
            for row, column in match(predicted, found.boxes, gates, overlap_gates, tuning.size_ratio_limit):
                track, seen = going[row], found.observation(column, frame.index, frame.time_s)
                track.cut = None
                track.extend(seen, self._support(seen.score))
                used.append((column, track))
        taken = {column for column, _ in used}
        for column in np.flatnonzero(strong).tolist():
            if column not in taken:
                used.append((column, self._start_or_widen(frame, found, column, used)))
                taken.add(column)
        rest = [column for column in range(len(found.scores)) if column not in taken]
        frame.leftover = found.take(np.array(rest, np.intp)) if rest else None

    def _is_recent(self, track: Track, frame: PendingFrame) -> bool:
        """Whether a track was seen so recently that a weak detection is enough to continue it."""
        limit_s = max(track.deserves_s(self._limits.hold_s, self._tuning), self._tuning.weak_gap_s)
        return (frame.time_s - track.last.time_s <= limit_s + TIME_ROUNDING_S
                or frame.index - track.last.frame <= self._tuning.hold_frames)

    def _support(self, score: float) -> float:
        """What one detection says for a track being a face, 0 to 1 (certain)."""
        tuning = self._tuning
        certain = self._threshold + tuning.certain_score_share * (1.0 - self._threshold)
        if score >= certain:
            return 1.0
        share = (score - self._threshold) / (certain - self._threshold) if score > self._threshold else 0.0
        return max(share, tuning.weak_support) / tuning.certain_count

    def _gates(self, going: list[Track], strong: npt.NDArray[np.bool_], frame: PendingFrame) -> tuple[Float64, Float64]:
        """Largest distance in sizes, and smallest overlap, at which a detection continues a track: (N, M) each.

        Weak detections have smaller gates. They continue only tracks that were seen not long ago, and strong ones only
        those or well supported tracks. After a cut, only a strong detection at the same place continues a track.
        """
        tuning = self._tuning
        reach = np.array([self._gate(track, frame.time_s) for track in going])
        whole = np.array([track.cut is None for track in going])
        recent = whole & np.array([self._is_recent(track, frame) for track in going])
        gates = reach[:, None] * np.where(strong, 1.0, tuning.weak_gate_share)[None, :]
        lasting = recent | (whole & np.array([track.support >= tuning.lasting_support for track in going]))
        near = np.where(strong[None, :], lasting[:, None], recent[:, None])
        overlap = np.where(strong[None, :] & ~whole[:, None], tuning.same_place_iou, 2.0)
        return np.where(near, gates, -1.0), np.where(near, tuning.overlap_gate_iou, overlap)

    def _gate(self, track: Track, time_s: float) -> float:
        tuning = self._tuning
        growth = (tuning.first_gate_growth_sizes_per_s if len(track.observations) == 1
                  else tuning.gate_growth_sizes_per_s)
        return min(tuning.gate_sizes + growth * (time_s - track.last.time_s), tuning.gate_limit_sizes)

    def _start_or_widen(self, frame: PendingFrame, found: Candidates, column: int,
                        used: list[tuple[int, Track]]) -> Track:
        seen = found.observation(column, frame.index, frame.time_s)
        if used:
            iou = overlaps(found.boxes[[other for other, _ in used]], found.boxes[column])
            best = int(np.argmax(iou))
            if iou[best] >= self._tuning.duplicate_iou:
                twin = used[best][1]
                twin.widen(seen.box)
                return twin
        track = Track(self._next_identity, seen, self._barrier, self._support(seen.score))
        self._next_identity += 1
        self._tracks.append(track)
        self._trace_back(track)
        return track

    def _trace_back(self, track: Track) -> None:
        """Extend a new track into the past through weak detections of frames that are not planned yet."""
        tuning = self._tuning
        for frame in reversed(self._pending):
            weak, first = frame.leftover, track.first
            if frame.index >= first.frame or weak is None:
                continue
            gap_s = first.time_s - frame.time_s
            far = gap_s > tuning.weak_gap_s + TIME_ROUNDING_S and first.frame - frame.index > 1
            if far or frame.index < track.barrier:
                return
            gate = tuning.weak_gate_share * min(
                tuning.gate_sizes + tuning.gate_growth_sizes_per_s * gap_s, tuning.gate_limit_sizes)
            for _, column in match(np.array([first.box]), weak.boxes, np.array([[gate]]),
                                   np.array([[tuning.overlap_gate_iou]]), tuning.size_ratio_limit):
                seen = weak.observation(column, frame.index, frame.time_s)
                track.extend_back(seen, self._support(seen.score))
                rest = np.flatnonzero(np.arange(len(weak.scores)) != column)
                frame.leftover = weak.take(rest) if len(rest) else None
