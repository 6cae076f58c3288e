"""Recall and average precision against labelled pictures, by the size of the faces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from build_engines.matching import SIZE_CLASSES, SizeClass, match, overlaps, size_classes
from edge.errors import InputError
from edge.types import Detections, Float32

LABEL_IOU = 0.3         # labels of dlib and 300-W hug the face from brows to chin, detectors take the whole head
Group = SizeClass | None        # None: all sizes


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """faces, ignored: float32 (N, 4), x1 y1 x2 y2, pixels. What is ignored may be found or not."""

    path: Path
    faces: Float32
    ignored: Float32


@dataclass(frozen=True, slots=True)
class LabelScore:
    """faces: how many are labelled. found: at the threshold. ap: average precision over all scores, 0 to 1; nan without
    faces. false: detections at the threshold that are no labelled face."""

    faces: int
    found: int
    ap: float
    false: int

    @property
    def recall(self) -> float:
        """Share of labelled faces that are found; 1 when there are none."""
        return self.found / self.faces if self.faces else 1.0


def read_labels(path: Path, root: Path) -> list[Labels]:
    """Rows of ``{"file": ..., "boxes": [[x, y, w, h]], "ignore": [...]}``; files relative to `root`.

    Raises InputError.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [Labels(root / row["file"], _corners(row["boxes"]), _corners(row.get("ignore") or [])) for row in rows]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "name a file with labels") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a file with labels ({error})", "see docs/int8.md for its form") from error


def score_labels(labels: Sequence[Labels], found: Sequence[Detections], threshold: float) -> dict[Group, LabelScore]:
    """Score detections, of all scores, against labels.

    For a size class, faces of other sizes are ignored, and so is what is found on them or, matching nothing, has
    another size itself: as COCO does it.
    """
    groups: tuple[Group, ...] = (None, *SIZE_CLASSES)
    return {group: _score(labels, found, threshold, group) for group in groups}


def _score(labels: Sequence[Labels], found: Sequence[Detections], threshold: float, group: Group) -> LabelScore:
    scores: list[Float32] = []
    hits: list[npt.NDArray[np.bool_]] = []
    faces = 0
    for label, given in zip(labels, found, strict=True):
        counted = np.array([group in (None, name) for name in size_classes(label.faces)], bool)
        faces += int(counted.sum())
        matches = match(given.boxes, given.scores, label.faces, LABEL_IOU)
        hit, skip = np.zeros(len(given), bool), np.zeros(len(given), bool)
        hit[matches.found] = counted[matches.wanted]
        skip[matches.found] = ~counted[matches.wanted]
        free = np.setdiff1d(np.arange(len(given)), matches.found)
        if group is not None:
            skip[free] = [name != group for name in size_classes(given.boxes[free])]
        if len(label.ignored) and len(free):
            skip[free] |= overlaps(given.boxes[free], label.ignored).max(axis=1) >= LABEL_IOU
        scores.append(given.scores[~skip])
        hits.append(hit[~skip])
    every = np.concatenate(scores) if scores else np.zeros(0, np.float32)
    hit = np.concatenate(hits) if hits else np.zeros(0, bool)
    at = every >= threshold
    return LabelScore(faces, int((hit & at).sum()), average_precision(every, hit, faces), int((~hit & at).sum()))


def average_precision(scores: Float32, hits: npt.NDArray[np.bool_], faces: int) -> float:
    """Area under the curve of precision over recall, precision made monotonous (Pascal VOC 2010). nan without faces."""
    if faces == 0:
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    true = np.cumsum(hits[order])
    precision = true / np.arange(1, len(order) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float(precision[hits[order]].sum() / faces)


def _corners(boxes: Any) -> Float32:
    rows = np.asarray(boxes, np.float32).reshape(-1, 4)
    return np.concatenate([rows[:, :2], rows[:, :2] + rows[:, 2:]], axis=1)
