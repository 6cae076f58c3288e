"""Which ways to build a network are worth trying."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from build_engines.sensitivity import Group, without_noisiest
from edge.graph.layers import Layer

MIN_CHANNELS = 16
"""Layers with fewer channels are left in float: INT8 kernels work on 16 to 32 channels at a time, and NVIDIA's own
quantiser leaves them out, too (Model-Optimizer, modelopt/onnx/quantization/graph_utils.py)."""
NOISE_SHARES = (0.5, 0.25, 0.1)
MAX_NEW = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """Layers to run in INT8, by name. why: for people."""

    name: str
    int8: frozenset[str]
    why: str


def base_plan(name: str) -> Plan:
    """No INT8 at all; what everything else is compared with."""
    return Plan(name, frozenset(), "no INT8")


def first_plans(layers: Sequence[Layer], quantisable: Collection[str]) -> tuple[Plan, ...]:
    """INT8 everywhere allowed, then with fewer and fewer kinds of layers. No plan twice, none that is empty."""
    allowed = [layer for layer in layers if layer.name in quantisable]
    wide = [
        layer
        for layer in allowed
        if layer.kind != "depthwise"
        and not (layer.first or layer.last)
        and min(layer.in_channels, layer.out_channels) >= MIN_CHANNELS
    ]
    dense = [layer for layer in wide if layer.kind == "dense"]
    plans = (
        Plan("int8-all", _names(allowed), "every layer that may"),
        Plan("int8-wide", _names(wide), "no depthwise, first, last or narrow layers"),
        Plan("int8-dense", _names(dense), "dense convolutions with channels enough only"),
    )
    return distinct(plans, ())


def quieter_plans(parent: Plan, groups: Sequence[Group]) -> tuple[Plan, ...]:
    """`parent` without the groups of layers that make the most noise."""
    known = [Group(tuple(n for n in part.layers if n in parent.int8), part.noise) for part in groups]
    known = [part for part in known if part.layers]
    plans = []
    for share in NOISE_SHARES:
        kept = without_noisiest(known, share)
        count = len(parent.int8) - len(kept)
        plans.append(Plan(f"{parent.name}-quiet{share * 100:g}", kept, f"{parent.name} without the {count} layers that "
                                                                       f"make most noise, {share:.0%} of it is left"))
    return distinct(plans, [parent])     # fmt: skip


def quicker_plan(
    parent: Plan, groups: Collection[tuple[str, ...]], int8_ms: Mapping[str, float], base_ms: Mapping[str, float]
) -> tuple[Plan, ...]:
    """`parent` without the groups of layers that are not quicker in INT8, conversions included; none if all are.

    int8_ms: of `parent`, base_ms: of the network without INT8, by layer.
    """
    slow = [
        part
        for part in groups
        if sum(int8_ms.get(name, 0.0) for name in part) >= sum(base_ms.get(name, 0.0) for name in part)
    ]
    names = frozenset(name for part in slow for name in part) & parent.int8
    plan = Plan(
        f"{parent.name}-quick", parent.int8 - names,
        f"{parent.name} without the {len(names)} layers that are not quicker in INT8",
    )   # fmt: skip
    return distinct([plan], [parent])


def distinct(plans: Sequence[Plan], tried: Sequence[Plan]) -> tuple[Plan, ...]:
    """Those that are not empty and whose layers no earlier plan has."""
    seen = {plan.int8 for plan in tried} | {frozenset[str]()}
    result = []
    for plan in plans:
        if plan.int8 not in seen:
            seen.add(plan.int8)
            result.append(plan)
    return tuple(result)


def _names(layers: Sequence[Layer]) -> frozenset[str]:
    return frozenset(layer.name for layer in layers)
