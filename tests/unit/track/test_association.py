"""Gates, costs and assignment."""

from __future__ import annotations

import numpy as np
import pytest

from edge.track.association import match, overlaps, to_centres


def boxes(*rows: tuple[float, float, float, float]) -> np.ndarray:
    return np.array(rows, np.float64).reshape(-1, 4)


def pairs(predicted, detected, gate: float = 1.0, overlap: float = 0.3) -> set[tuple[int, int]]:
    shape = len(predicted), len(detected)
    return set(match(predicted, detected, np.full(shape, gate), np.full(shape, overlap), 1.8))


def test_centres_of_corners() -> None:
    assert to_centres(np.array([[10, 20, 30, 60]], np.float32)).tolist() == [[20, 40, 20, 40]]


@pytest.mark.parametrize(("other", "iou"), [
    ((50, 50, 20, 20), 1.0),
    ((60, 50, 20, 20), 1 / 3),
    ((50, 50, 10, 10), 0.25),
    ((70, 50, 20, 20), 0.0),
    ((500, 50, 20, 20), 0.0),
])
def test_overlap(other, iou: float) -> None:
    assert overlaps(boxes((50, 50, 20, 20)), boxes(other))[0] == pytest.approx(iou)


@pytest.mark.parametrize(("detected", "expected"), [
    (boxes((119, 100, 20, 20)), {(0, 0)}),                              # within the gate, without overlap
    (boxes((121, 100, 20, 20)), set()),                                 # beyond it
    (boxes((100, 100, 40, 40)), set()),                                 # another size
    (boxes((100, 100, 33, 33)), {(0, 0)}),                              # another size, but it overlaps enough
    (boxes((106, 100, 20, 20), (101, 100, 20, 20)), {(0, 1)}),          # the nearer one
    (boxes(), set()),
])
def test_one_prediction(detected, expected: set[tuple[int, int]]) -> None:
    assert pairs(boxes((100, 100, 20, 20)), detected) == expected


def test_neighbours_keep_their_own() -> None:
    row = boxes(*((100 + 25 * n, 100, 20, 20) for n in range(10)))
    moved = row + np.array([9, 0, 0, 0])
    assert pairs(row, moved) == {(n, n) for n in range(10)}


def test_gates_are_per_pair() -> None:
    predicted, detected = boxes((100, 100, 20, 20), (300, 100, 20, 20)), boxes((110, 100, 20, 20), (310, 100, 20, 20))
    gates = np.array([[1.0, 1.0], [-1.0, -1.0]])
    assert match(predicted, detected, gates, np.full((2, 2), 2.0), 1.8) == [(0, 0)]
