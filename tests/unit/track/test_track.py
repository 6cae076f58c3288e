"""Motion and memory of one track."""

from __future__ import annotations

from math import exp, inf

import pytest

from edge.track.track import Observation, Track, grow, size_of, travel, union, velocity
from edge.track.tuning import Tuning

TUNING = Tuning()


def seen(frame: int, x: float, fps: float = 30.0) -> Observation:
    return Observation(frame, frame / fps, (x, 100.0, 40.0, 40.0), 0.9, None)


def track(*observations: Observation) -> Track:
    made = Track(1, observations[0], 0, 0.2)
    for observation in observations[1:]:
        made.extend(observation, 0.2)
    return made


@pytest.mark.parametrize(("frames", "end", "step", "expected"), [
    ([0], 0, -1, 0.0),
    ([0, 1, 2, 3], 3, -1, 300.0),
    ([0, 1, 2, 3], 0, 1, 300.0),
    ([0, 40], 1, -1, 300.0),            # the next one counts however far away it is
    ([0, 40, 41, 42], 3, -1, 300.0),
])
def test_velocity_is_that_of_the_motion(frames, end: int, step: int, expected: float) -> None:
    observations = [seen(n, 10.0 * n) for n in frames]
    assert velocity(observations, end, step, 0.15) == pytest.approx((expected, 0.0))


def test_velocity_averages_over_its_window() -> None:
    observations = [seen(n, x) for n, x in enumerate([0, 10, 20, 30, 48])]
    assert velocity(observations, 4, -1, 0.15)[0] == pytest.approx(48 / (4 / 30))
    assert velocity(observations, 4, -1, 0.05)[0] == pytest.approx(18 * 30)


@pytest.mark.parametrize("elapsed_s", [0.0, 0.05, 0.3, 5.0, -0.3])
def test_travel_comes_to_rest(elapsed_s: float) -> None:
    dx, dy = travel((100.0, -50.0), elapsed_s, 1000.0, TUNING)
    reach_s = TUNING.velocity_decay_s * (1 - exp(-abs(elapsed_s) / TUNING.velocity_decay_s))
    sign = 1 if elapsed_s >= 0 else -1
    assert (dx, dy) == pytest.approx((sign * 100 * reach_s, sign * -50 * reach_s))


def test_travel_is_limited_in_sizes() -> None:
    dx, dy = travel((30_000.0, 40_000.0), 1.0, 10.0, TUNING)
    assert (dx, dy) == pytest.approx((6.0 * TUNING.travel_limit_sizes, 8.0 * TUNING.travel_limit_sizes))


@pytest.mark.parametrize(("at", "kept"), [(0, 6), (2, 5), (3, 4), (4, 3), (5, 2), (9, 2)])
def test_forgetting_keeps_two_observations_up_to_the_frame(at: int, kept: int) -> None:
    made = track(*(seen(n, 0.0) for n in range(6)))
    made.forget(inf, at)
    assert len(made.observations) == len(made.indices) == kept
    assert made.indices == [observation.frame for observation in made.observations]


def test_what_is_forgotten_is_not_needed_for_a_long_gap() -> None:
    made = track(seen(0, 0), seen(1, 1), seen(60, 60), seen(61, 61))
    made.forget(30 / 30, 31)
    assert made.indices == [0, 1, 60, 61]


def test_smoothing_follows_a_moving_face_and_averages_jitter() -> None:
    straight = track(*(seen(n, 30.0 * n) for n in range(7)))
    assert [straight.smooth(n, TUNING)[0] for n in range(7)] == pytest.approx([30.0 * n for n in range(7)])
    jitter = track(*(seen(n, 4.0 * (n % 2)) for n in range(7)))
    assert all(1.0 < jitter.smooth(n, TUNING)[0] < 3.0 for n in range(2, 5))


@pytest.mark.parametrize(("support", "expected_s"), [(0.0, TUNING.brief_s), (0.5, 0.25), (1.0, 0.5)])
def test_hold_is_in_proportion_to_support(support: float, expected_s: float) -> None:
    made = Track(1, seen(0, 0), 0, support)
    assert made.deserves_s(0.5, TUNING) == pytest.approx(expected_s)
    assert made.deserves_s(0.01, TUNING) == pytest.approx(0.01), "a short hold is not shortened further"


def test_boxes() -> None:
    assert union((10, 10, 20, 20), (30, 10, 20, 40)) == (20, 10, 40, 40)
    assert grow((0, 0, 90, 40), 0.5) == (0, 0, 150, 100)
    assert size_of((0, 0, 90, 40)) == 60
