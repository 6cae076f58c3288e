"""The decision."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_engines.backend import Timing
from build_engines.choice import Choice, Trial, Verdict, choose, is_quicker, pace, speedups

GOOD, BAD = Verdict(True), Verdict(False, "loses 3.0 points of faces (9 of 300)")
UNPROVEN = Verdict(True, unproven="only 2 small faces to judge on, 10 are needed")


def trial(name: str, *times_ms: float, verdict: Verdict | None = GOOD, failure: str = "") -> Trial:
    timings = tuple(Timing(name, batch, ms, 0.01, 100) for batch, ms in zip((1, 8), times_ms, strict=False))
    return Trial(name, 0 if name.startswith("fp") else 10, failure, timings, verdict)


FP16 = trial("fp16", 1.0, 4.0)


@pytest.mark.parametrize(
    ("others", "force", "kept", "why"),
    [
        ([trial("int8", 0.8, 3.0)], False, "int8", "1.25 times as fast as fp16 at batch 1"),
        ([trial("int8", 0.8, 3.0), trial("int8-b", 0.7, 2.5)], False, "int8-b", "the fastest that finds the faces"),
        ([trial("int8", 1.2, 5.0)], False, "fp16", "INT8 is not faster here: int8"),
        ([trial("int8", 0.9, 4.1)], False, "fp16", "INT8 is not faster here"),             # slower at one batch
        ([trial("int8", 0.99, 3.99)], False, "fp16", "INT8 is not faster here"),           # by less than noise
        ([trial("int8", 0.8, 3.0, verdict=BAD)], False, "fp16", "loses 3.0 points"),
        ([trial("int8", 0.8, 3.0, verdict=BAD)], True, "fp16", "loses 3.0 points"),         # never the recall rule
        ([trial("int8", 0.8, 3.0, verdict=UNPROVEN)], True, "fp16", "only 2 small faces"),
        ([trial("int8", 1.2, 5.0), trial("int8-b", 1.5, 5.0)], True, "int8", "as forced"),
        ([trial("int8", 0.5, 2.0, verdict=BAD), trial("int8-b", 0.9, 3.5)], False, "int8-b", "the fastest that"),
        ([trial("int8", verdict=None, failure="TensorRT cannot build it")], False, "fp16", "could be built"),
        ([], False, "fp16", "no INT8 was asked for or possible"),
    ],
)
def test_what_is_kept_and_why(others: list[Trial], force: bool, kept: str, why: str) -> None:
    choice = choose([FP16, *others], "fp16", force)
    assert choice.kept == kept
    assert why in choice.why


def test_an_unproven_base_is_kept() -> None:
    assert choose([trial("fp32", 1.0, verdict=UNPROVEN)], "fp32").kept == "fp32"


def test_without_a_base_that_works_int8_may_be_kept_and_else_nothing() -> None:
    broken = trial("fp16", verdict=Verdict(False, "not finite"))
    assert choose([broken, trial("int8", 1.0, 2.0)], "fp16").kept == "int8"
    assert choose([broken], "fp16") == Choice(None, "no candidate can be used")


verdicts = st.sampled_from([GOOD, BAD, UNPROVEN, None])
int8_trials = st.lists(
    st.tuples(st.floats(0.1, 10), st.floats(0.1, 10), verdicts, st.booleans()), max_size=6
).map(lambda rows: [trial(f"int8-{i}", a, b, verdict=v, failure="failed" if f else "")
                    for i, (a, b, v, f) in enumerate(rows)])  # fmt: skip


@given(int8_trials, st.booleans(), st.randoms())
def test_the_rules_hold_whatever_was_measured(others: list[Trial], force: bool, shuffler: random.Random) -> None:
    trials = [FP16, *others]
    choice = choose(trials, "fp16", force)
    kept = next(each for each in trials if each.name == choice.kept)
    assert kept.usable
    if kept.int8_layers and not force:
        assert is_quicker(kept, FP16)
        assert all(ratio >= 1 for ratio in speedups(kept, FP16).values())
    for other in others:
        if other.usable and (force or is_quicker(other, FP16)):
            assert pace(kept) <= pace(other)
    shuffler.shuffle(trials)
    assert choose(trials, "fp16", force) == choice
