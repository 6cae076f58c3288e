"""Which plans are made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_engines.candidates import Plan, distinct, first_plans, quicker_plan, quieter_plans
from build_engines.sensitivity import Group, without_noisiest
from edge.graph.layers import Kind, Layer


def layer(name: str, kind: Kind = "dense", channels: int = 32, first: bool = False, last: bool = False) -> Layer:
    return Layer(name, "Conv", kind, channels, channels, (3, 3), first, last, f"{name}/in", f"{name}/weights")


LAYERS = (
    layer("stem", channels=3, first=True), layer("dw", "depthwise"), layer("pw", "pointwise"), layer("mid"),
    layer("narrow", channels=8), layer("up", "transposed"), layer("head", last=True),
)   # fmt: skip
ALLOWED = frozenset(one.name for one in LAYERS if one.kind != "transposed")


def test_first_plans_take_less_and_less() -> None:
    plans = {plan.name: plan.int8 for plan in first_plans(LAYERS, ALLOWED)}
    assert plans == {"int8-all": ALLOWED, "int8-wide": {"pw", "mid"}, "int8-dense": {"mid"}}


def test_no_plan_is_empty_or_there_twice() -> None:
    assert first_plans(LAYERS, ()) == ()
    assert [plan.name for plan in first_plans((layer("a"), layer("b")), {"a", "b"})] == ["int8-all"]


PARENT = Plan("int8-all", frozenset("abcd"), "")
GROUPS = (Group(("a",), 0.01), Group(("b",), 0.5), Group(("c", "x"), 0.3), Group(("d",), 0.19))


def test_the_noisiest_go_first() -> None:
    plans = quieter_plans(PARENT, GROUPS)
    assert [sorted(plan.int8) for plan in plans] == [["a", "c", "d"], ["a", "d"], ["a"]]
    assert "1 layers" in plans[0].why


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 1))
def test_what_is_left_makes_no_more_noise_than_allowed(noise: list[float], share: float) -> None:
    parts = [Group((str(place),), value) for place, value in enumerate(noise)]
    kept = without_noisiest(parts, share)
    assert sum(noise[int(name)] for name in kept) <= share * sum(noise) + 1e-12


def test_groups_that_are_not_quicker_go_back() -> None:
    parts = [("a", "b"), ("c",), ("d",)]
    int8_ms, base_ms = {"a": 1.0, "b": 0.1, "c": 0.5, "d": 2.0}, {"a": 0.9, "b": 0.5, "c": 0.5, "d": 3.0}
    assert quicker_plan(PARENT, parts, int8_ms, base_ms)[0].int8 == {"a", "b", "d"}
    assert quicker_plan(PARENT, parts, dict.fromkeys("abcd", 0.0), dict.fromkeys("abcd", 1.0)) == ()
    assert quicker_plan(PARENT, parts, dict.fromkeys("abcd", 2.0), dict.fromkeys("abcd", 1.0)) == ()


@pytest.mark.parametrize("tried", [PARENT, Plan("other", frozenset("abcd"), "")])
def test_what_was_tried_is_not_tried_again(tried: Plan) -> None:
    assert distinct([PARENT, Plan("empty", frozenset(), "")], [tried]) == ()
