"""A short fault campaign against the whole daemon; `python -m tests.campaign` is the long one."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from rich.console import Console

from tests.campaign.__main__ import run
from tests.campaign.plan import KINDS, episodes

MINUTES = 2.5


def test_a_seed_gives_the_same_faults_and_each_kind_first() -> None:
    def first(seed: int) -> list[object]:
        plan = episodes(seed, 3)
        return [next(plan) for _ in range(len(KINDS) + 20)]

    assert first(4) == first(4) != first(5)
    assert {episode.kind for episode in first(4)[: len(KINDS)]} == set(KINDS)  # type: ignore[attr-defined]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1])
def test_no_fault_shows_a_face(tmp_path: Path, seed: int) -> None:
    wanted = argparse.Namespace(seed=seed, minutes=MINUTES, faults=1 << 30, cameras=1, kinds=list(KINDS))
    tally, verdict, growth = run(wanted, tmp_path, Console(quiet=True))
    assert verdict.faces == [] and verdict.frames > 500
    assert verdict.good, verdict.describe()
    assert tally.never == 0, tally.to_plain()
    assert tally.faults > 100
    assert growth.zombies == 0
