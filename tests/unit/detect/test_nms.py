"""Non-maximum suppression against the textbook loop."""

from __future__ import annotations

import numpy as np
import pytest

from edge.detect.nms import suppress
from tests.unit.detect.photos import Array, overlaps


def textbook(boxes: Array, scores: Array, max_iou: float) -> list[int]:
    kept: list[int] = []
    table = overlaps(boxes, boxes)
    for candidate in np.argsort(-scores, kind="stable"):
        if all(table[candidate, other] <= max_iou for other in kept):
            kept.append(int(candidate))
    return kept


@pytest.mark.parametrize("count", [0, 1, 2, 50, 400])
def test_same_as_the_textbook(count: int) -> None:
    random = np.random.default_rng(count)
    start = random.uniform(0, 100, (count, 2))
    boxes = np.concatenate([start, start + random.uniform(5, 60, (count, 2))], axis=1).astype(np.float32)
    scores = random.uniform(0, 1, count).astype(np.float32)
    assert suppress(boxes, scores, 0.4, 1000).tolist() == textbook(boxes, scores, 0.4)


def test_only_the_best_are_looked_at() -> None:
    boxes = np.stack([np.arange(20) * 10, np.zeros(20), np.arange(20) * 10 + 5, np.ones(20)], axis=1).astype(np.float32)
    scores = np.linspace(0, 1, 20, dtype=np.float32)
    assert suppress(boxes, scores, 0.4, 3).tolist() == [19, 18, 17]
