"""Which of two sets of boxes show the same faces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from edge.types import Float32

SizeClass = Literal["small", "medium", "large"]
SIZE_CLASSES: tuple[SizeClass, ...] = get_args(SizeClass)
SMALL_PX, MEDIUM_PX = 32.0, 96.0
"""Sides of a square as large as the box, as COCO divides sizes (https://cocodataset.org/#detection-eval)."""

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Pairs of boxes that show the same face.

    found: indices (M,) of found boxes; wanted: indices (M,) of the boxes that each was matched with; iou: (M,).
    """

    found: Indices
    wanted: Indices
    iou: Float32


def overlaps(boxes: Float32, others: Float32) -> Float32:
    """Intersection over union, float32 (N, M), of boxes (N, 4) and (M, 4), x1 y1 x2 y2. 0 where both are empty."""
    start = np.maximum(boxes[:, None, :2], others[None, :, :2])
    end = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared = np.clip(end - start, 0, None).prod(axis=2)
    union = _areas(boxes)[:, None] + _areas(others)[None] - shared
    result: Float32 = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0).astype(np.float32)
    return result


def _areas(boxes: Float32) -> Float32:
    areas: Float32 = np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1)
    return areas


def match(found: Float32, scores: Float32, wanted: Float32, min_iou: float) -> Matches:
    """Give every found box, best score first, the free wanted box that it overlaps most, if by at least `min_iou`.

    As in the evaluation of WIDER FACE and COCO: each box is in one pair at most.
    """
    table = overlaps(found, wanted)
    pairs: list[tuple[int, int, float]] = []
    for row in np.argsort(-scores, kind="stable"):
        if table.shape[1] == 0:
            break
        column = int(table[row].argmax())
        iou = float(table[row, column])
        if iou >= min_iou and iou > 0:
            pairs.append((int(row), column, iou))
            table[:, column] = -1.0
    rows = np.array([pair[0] for pair in pairs], np.intp)
    columns = np.array([pair[1] for pair in pairs], np.intp)
    return Matches(rows, columns, np.array([pair[2] for pair in pairs], np.float32))


def sides(boxes: Float32) -> Float32:
    """Side of a square as large as each box, (N,), pixels."""
    return np.sqrt(_areas(boxes))


def size_classes(boxes: Float32) -> list[SizeClass]:
    """The class of each box, by `sides`."""
    return ["small" if side < SMALL_PX else "medium" if side < MEDIUM_PX else "large" for side in sides(boxes)]
