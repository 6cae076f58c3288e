"""What counts as lost, gained, clear and precise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_engines.judge import judged
from build_engines.matching import SIZE_CLASSES
from build_engines.score import compare, compare_picture
from edge.types import Detections

THRESHOLD = 0.5


def faces(*given_faces: tuple[float, float]) -> Detections:
    """(side, score): squares in a row, far apart."""
    ordered = sorted(enumerate(given_faces), key=lambda item: -item[1][1])
    boxes = [(300.0 * place, 0, 300.0 * place + side, side) for place, (side, _) in ordered]
    scores = np.array([score for _, (_, score) in ordered], np.float32)
    return Detections(np.array(boxes, np.float32).reshape(-1, 4), scores)


def test_the_same_faces_are_all_kept() -> None:
    same = faces((20, 0.9), (50, 0.6), (120, 0.55), (40, 0.3))
    score = compare_picture(same, same, THRESHOLD)
    assert (score.all.reference, score.all.kept, score.all.found, score.all.known) == (3, 3, 3, 4)
    assert (score.all.recall, score.all.loss, score.all.precision) == (1, 0, 1)
    assert score.all.mean_iou == pytest.approx(1, abs=1e-6)
    assert [score.by_size[name].reference for name in SIZE_CLASSES] == [1, 1, 1]


def test_what_falls_below_the_threshold_is_lost() -> None:
    score = compare_picture(faces((20, 0.9), (50, 0.51)), faces((20, 0.9), (50, 0.49)), THRESHOLD)
    assert (score.all.recall, score.all.loss) == (0.5, 0.5)
    assert score.by_size["medium"].loss == 1
    assert score.all.clear_loss == 0


def test_one_that_rises_makes_up_for_one_that_falls_among_known_faces() -> None:
    reference, found = faces((50, 0.51), (40, 0.45)), faces((50, 0.45), (40, 0.51))
    score = compare_picture(reference, found, THRESHOLD)
    assert (score.all.recall, score.all.loss, score.all.precision) == (0, 0, 1)


def test_faces_out_of_nothing_make_up_for_nothing() -> None:
    reference, found = faces((50, 0.51)), faces((50, 0.4), (40, 0.9))
    score = compare_picture(reference, found, THRESHOLD)
    assert (score.all.loss, score.all.precision) == (1, 0)


def test_a_clear_face_is_never_made_up_for() -> None:
    reference, found = faces((50, 0.9), (40, 0.45)), faces((50, 0.3), (40, 0.9))
    score = compare_picture(reference, found, THRESHOLD)
    assert (score.all.loss, score.all.clear_loss) == (0, 1)
    assert not judged(score, 0.005).passed


def test_boxes_that_moved() -> None:
    found = faces((100, 0.9))
    moved = Detections(found.boxes + np.float32(10), found.scores)
    score = compare_picture(found, moved, THRESHOLD)
    assert score.all.mean_iou == pytest.approx(8100 / 11900, abs=1e-4)
    assert score.all.centre_error == pytest.approx(0.1414, abs=1e-3)
    assert "boxes overlap" in judged(score, 0.005).why


one_face = st.tuples(st.sampled_from([20.0, 50.0, 120.0]), st.floats(0.26, 0.99))


@given(st.lists(one_face, max_size=6), st.lists(one_face, max_size=6))
def test_counts_always_add_up(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> None:
    reference, found = faces(*first), faces(*second)
    score = compare([reference, reference], [found, reference], THRESHOLD)
    for part in (score.all, *score.by_size.values()):
        assert 0 <= part.clear_kept <= part.clear <= part.reference <= part.known
        assert part.clear_kept <= part.kept <= part.reference
        assert part.kept + part.gained <= part.found
        assert 0 <= part.recall <= 1
        assert 0 <= part.precision <= 1
        assert part.loss <= 1
    assert score.all.found == int((found.scores >= THRESHOLD).sum() + (reference.scores >= THRESHOLD).sum())


def test_the_rule_counts_one_flip_as_noise_and_two_as_loss() -> None:
    kept = [(20.0, 0.9)] * 50
    for flips, passed in ((1, True), (2, False)):
        reference = faces(*kept, *[(20.0, 0.52)] * flips)
        found = faces(*kept, *[(20.0, 0.48)] * flips)
        assert judged(compare_picture(reference, found, THRESHOLD), 0.005).passed is passed


def test_few_small_faces_prove_nothing_and_what_is_not_proven_is_said() -> None:
    large = faces(*[(120.0, 0.9)] * 100)
    verdict = judged(compare_picture(large, large, THRESHOLD), 0.005)
    assert verdict.passed
    assert verdict.unproven == "only 0 small faces to judge on, 10 are needed"
    small = faces(*[(20.0, 0.9)] * 100)
    verdict = judged(compare_picture(small, small, THRESHOLD), 0.005)
    assert verdict.passed
    assert not verdict.unproven
    assert verdict.notes[0].startswith("with 100 faces a loss of up to 3.0 points could go unseen")


def test_no_faces_at_all() -> None:
    verdict = judged(compare_picture(Detections.none(), Detections.none(), THRESHOLD), 0.005)
    assert verdict.unproven == "the float model itself finds no face in the held-out pictures"
