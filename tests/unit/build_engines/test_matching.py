"""Pairs of boxes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_engines.matching import match, overlaps, sides, size_classes
from edge.types import Float32

coordinate = st.floats(0, 200, width=32)
box = st.tuples(coordinate, coordinate, st.floats(1, 80, width=32), st.floats(1, 80, width=32)).map(
    lambda values: (values[0], values[1], values[0] + values[2], values[1] + values[3])
)


def boxes(*rows: tuple[float, float, float, float]) -> Float32:
    return np.array(rows, np.float32).reshape(-1, 4)


def test_overlap() -> None:
    table = overlaps(boxes((0, 0, 10, 10)), boxes((0, 0, 10, 10), (5, 0, 15, 10), (20, 20, 30, 30), (5, 5, 5, 5)))
    assert table == pytest.approx(np.array([[1, 1 / 3, 0, 0]]), abs=1e-6)


def test_the_best_score_chooses_first() -> None:
    found = boxes((0, 0, 10, 8), (0, 0, 10, 10))
    pairs = match(found, np.array([0.5, 0.9], np.float32), boxes((0, 0, 10, 10)), 0.5)
    assert pairs.found.tolist() == [1]
    assert pairs.wanted.tolist() == [0]


def test_a_taken_face_leaves_the_next_best() -> None:
    found = boxes((0, 0, 10, 10), (1, 0, 11, 10))
    wanted = boxes((0, 0, 10, 10), (3, 0, 13, 10))
    pairs = match(found, np.array([0.9, 0.8], np.float32), wanted, 0.5)
    assert dict(zip(pairs.found.tolist(), pairs.wanted.tolist(), strict=True)) == {0: 0, 1: 1}


@pytest.mark.parametrize(("found", "wanted"), [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_match(found: int, wanted: int) -> None:
    pairs = match(np.ones((found, 4), np.float32), np.ones(found, np.float32), np.ones((wanted, 4), np.float32), 0.5)
    assert len(pairs.found) == 0


@given(st.lists(box, max_size=8), st.lists(box, max_size=8), st.floats(0.05, 0.95))
def test_every_box_is_in_one_pair_at_most(found: list[tuple[float, ...]], wanted: list[tuple[float, ...]],
                                          least: float) -> None:  # fmt: skip
    one, other = boxes(*found), boxes(*wanted)        # type: ignore[arg-type]
    pairs = match(one, np.linspace(1, 0.1, len(one)).astype(np.float32), other, least)
    assert len(set(pairs.found.tolist())) == len(pairs.found)
    assert len(set(pairs.wanted.tolist())) == len(pairs.wanted)
    table = overlaps(one, other)
    assert all(table[i, j] >= least - 1e-6 for i, j in zip(pairs.found, pairs.wanted, strict=True))


def test_sizes() -> None:
    given_boxes = boxes((0, 0, 31, 31), (0, 0, 32, 32), (0, 0, 16, 100), (0, 0, 96, 96))
    assert size_classes(given_boxes) == ["small", "medium", "medium", "large"]
    assert sides(given_boxes)[2] == pytest.approx(40)
