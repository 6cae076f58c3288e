"""Timing in turns, and whose time it was."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from build_engines.timing import by_layer, time_in_turns, timing


def test_turns() -> None:
    order: list[str] = []
    quick, slow = time_in_turns(
        ["quick", "slow"],
        [lambda: order.append("quick"), lambda: (order.append("slow"), time.sleep(0.002))],
        1, rounds=3, each=2,
    )   # fmt: skip
    assert (quick.candidate, quick.batch, quick.runs, slow.runs) == ("quick", 1, 6, 6)
    assert quick.median_ms < 1 <= slow.median_ms
    assert order[4:] == ["quick", "quick", "slow", "slow", "slow", "slow", "quick", "quick", *order[4:8]]


def test_median_and_quartiles() -> None:
    assert timing("a", 1, [1.0, 2.0, 3.0, 4.0, 100.0]).median_ms == 3


def test_time_goes_to_the_layers_that_are_named() -> None:
    times = {"reformat 0": 9.0, "conv1 + relu": 1.0, "Reformatting CopyNode": 0.5, "conv12": 2.0, "conv2+conv3": 4.0}
    owners = {name: name for name in ("conv1", "conv2", "conv3", "conv12", "unused")} | {"relu": "conv1"}
    assert by_layer(times, owners) == {
        "conv1": 1.5, "conv2": 2.0, "conv3": 2.0, "conv12": 2.0, "unused": 0.0,
    }   # fmt: skip


def test_numbers_as_names() -> None:
    times = {"537_nchwc": 1.0, "Conv_53 (fused 53)": 2.0}
    assert by_layer(times, {"53": "53", "537": "537"}) == {"53": 2.0, "537": 1.0}


@given(st.dictionaries(st.sampled_from(["a", "b", "a + b", "z"]), st.floats(0, 5)))
def test_no_time_is_lost_after_the_first_layer(times: dict[str, float]) -> None:
    ordered = {"a": 1.0} | times
    assert abs(sum(by_layer(ordered, {"a": "a", "b": "b"}).values()) - sum(ordered.values())) < 1e-9
