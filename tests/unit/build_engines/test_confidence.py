"""Upper limits of shares."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_engines.confidence import largest_share


@pytest.mark.parametrize(("events", "trials"), [(0, 1), (0, 100), (1, 100), (5, 50), (49, 50), (12, 900)])
def test_at_the_limit_seeing_so_few_has_a_chance_of_one_in_twenty(events: int, trials: int) -> None:
    share = largest_share(events, trials)
    chance = sum(math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(events + 1))
    assert chance == pytest.approx(0.05, rel=1e-6)


def test_the_rule_of_three_and_nothing_seen() -> None:
    assert largest_share(0, 1000) == pytest.approx(0.003, rel=0.01)
    assert largest_share(0, 0) == largest_share(3, 3) == 1


@given(st.integers(0, 40), st.integers(1, 400))
def test_it_lies_above_what_was_seen_and_falls_with_trials(events: int, trials: int) -> None:
    limit = largest_share(events, trials)
    assert min(1.0, events / trials) <= limit <= 1
    assert largest_share(events, trials + 10) <= limit + 1e-9
