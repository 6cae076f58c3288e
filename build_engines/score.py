"""How well a candidate finds what the float model finds, by the size of the faces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from build_engines.matching import SIZE_CLASSES, SizeClass, match, sides, size_classes
from edge.types import Detections, Float32

MATCH_IOU = 0.5
POOL_RATIO = 0.5
"""Faces that the float model sees with at least this share of the threshold are known to it: the tracker keeps a face
alive from there on (`edge.settings.TrackSettings.keep_ratio`)."""
CLEAR_SHARE = 0.25
"""A face is clear when its score lies above the threshold by this share of what is left up to 1."""


@dataclass(frozen=True, slots=True)
class SizeScore:
    """Counts over all pictures, for faces of one size class or all.

    reference: faces that the float model finds at the threshold. kept: those of them that the candidate finds, too.
    gained: faces that only the candidate finds at the threshold, and the float model below it. known: all faces that
    the float model sees from `POOL_RATIO` of the threshold on. clear, clear_kept: faces that the float model finds with
    a margin, see `CLEAR_SHARE`. found: what the candidate finds. iou_sum, centre_error_sum: over `kept`; the distance
    of centres is a share of the face's side.
    """

    reference: int = 0
    kept: int = 0
    gained: int = 0
    known: int = 0
    clear: int = 0
    clear_kept: int = 0
    found: int = 0
    iou_sum: float = 0.0
    centre_error_sum: float = 0.0

    def __add__(self, other: SizeScore) -> SizeScore:
        return SizeScore(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def recall(self) -> float:
        """Share of the float model's faces that are found; 1 when there are none."""
        return self.kept / self.reference if self.reference else 1.0

    @property
    def precision(self) -> float:
        """Share of what is found that the float model sees, too, at any score from the pool on."""
        return (self.kept + self.gained) / self.found if self.found else 1.0

    @property
    def loss(self) -> float:
        """How many faces fewer are found, as a share of the float model's. Below 0: more are.

        Scores move a little in both directions, and faces at the threshold with them. What is lost is weighed against
        what is gained among faces that the float model knows, so that only a real decline counts; faces out of nothing
        do not make up for anything.
        """
        return (self.reference - self.kept - self.gained) / self.reference if self.reference else 0.0

    @property
    def clear_loss(self) -> float:
        """Share of clear faces that are not found; nothing is weighed against these."""
        return 1 - self.clear_kept / self.clear if self.clear else 0.0

    @property
    def mean_iou(self) -> float:
        """Overlap of the boxes of faces that both find; 1 when there are none."""
        return self.iou_sum / self.kept if self.kept else 1.0

    @property
    def centre_error(self) -> float:
        """Mean distance of the centres of these boxes, as a share of the face's side."""
        return self.centre_error_sum / self.kept if self.kept else 0.0


@dataclass(frozen=True, slots=True)
class DetectorScore:
    """by_size: for each size class of the float model's boxes (of its own boxes for what only the candidate finds)."""

    by_size: dict[SizeClass, SizeScore]

    @property
    def all(self) -> SizeScore:
        """Every size together."""
        return sum(self.by_size.values(), SizeScore())

    def __add__(self, other: DetectorScore) -> DetectorScore:
        return DetectorScore({name: self.by_size[name] + other.by_size[name] for name in SIZE_CLASSES})


EMPTY = DetectorScore({name: SizeScore() for name in SIZE_CLASSES})


def compare(reference: Sequence[Detections], found: Sequence[Detections], threshold: float) -> DetectorScore:
    """Compare picture by picture.

    Both: detections with scores from ``POOL_RATIO * threshold`` on. threshold: score from which on a detection counts.
    """
    total = EMPTY
    for wanted, given in zip(reference, found, strict=True):
        total = total + compare_picture(wanted, given, threshold)
    return total


def compare_picture(reference: Detections, found: Detections, threshold: float) -> DetectorScore:
    """See `compare`."""
    counted = found.scores >= threshold
    boxes, scores = found.boxes[counted], found.scores[counted]
    # First the faces of the float model, then those it merely knows: a box goes to what counts.
    strong = reference.scores >= threshold
    first = match(boxes, scores, reference.boxes[strong], MATCH_IOU)
    rest = np.setdiff1d(np.arange(len(boxes)), first.found)
    second = match(boxes[rest], scores[rest], reference.boxes[~strong], MATCH_IOU)
    clear = reference.scores[strong] >= threshold + CLEAR_SHARE * (1 - threshold)
    kept = np.zeros(int(strong.sum()), bool)
    kept[first.wanted] = True
    iou = np.zeros(len(kept), np.float32)
    iou[first.wanted] = first.iou
    error = np.zeros(len(kept), np.float32)
    error[first.wanted] = _centre_errors(boxes[first.found], reference.boxes[strong][first.wanted])

    def classes(values: Float32) -> np.typing.NDArray[np.str_]:
        return np.array(size_classes(values), dtype="U8")

    strong_class, weak_class = classes(reference.boxes[strong]), classes(reference.boxes[~strong])
    found_class = classes(boxes)
    found_class[first.found] = strong_class[first.wanted]       # a face is of one class on both sides
    found_class[rest[second.found]] = weak_class[second.wanted]
    return DetectorScore({
        name: SizeScore(
            reference=int((strong_class == name).sum()),
            kept=int(kept[strong_class == name].sum()),
            gained=int((weak_class[second.wanted] == name).sum()),
            known=int((strong_class == name).sum() + (weak_class == name).sum()),
            clear=int((clear & (strong_class == name)).sum()),
            clear_kept=int((clear & kept & (strong_class == name)).sum()),
            found=int((found_class == name).sum()),
            iou_sum=float(iou[strong_class == name].sum()),
            centre_error_sum=float(error[strong_class == name].sum()),
        )
        for name in SIZE_CLASSES
    })   # fmt: skip


def _centre_errors(boxes: Float32, others: Float32) -> Float32:
    apart = 0.5 * (boxes[:, :2] + boxes[:, 2:] - others[:, :2] - others[:, 2:])
    errors: Float32 = np.hypot(apart[:, 0], apart[:, 1]) / np.maximum(sides(others), 1e-6)
    return errors
