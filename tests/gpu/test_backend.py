"""The search's view of the GPU: times in turns, layers, and what a build in a child process leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from build_engines.backend import Built, Candidate
from build_engines.tensorrt_backend import ROUNDS, RUNS, TensorRtBackend, timing_cache_path
from edge.device import this_device
from tests.gpu.conftest import GRAPHS


@pytest.fixture
def backend(out: Path, tmp_path: Path) -> TensorRtBackend:
    return TensorRtBackend(tmp_path / "work", out, level=1, external_kernels=False)


def built(name: str, plan: Path) -> Built:
    return Built(Candidate(name, frozenset(), b""), plan, plan.stat().st_size, "", 1.0)


def test_candidates_are_timed_in_turns(backend: TensorRtBackend, plan: Callable[..., Path]) -> None:
    candidates = [built("fp16", plan("yunet_n")), built("int8", plan("yunet_n.int8", int8=True))]
    one, eight = backend.time(candidates, 1), backend.time(candidates, 8)
    for timing in (*one, *eight):
        print(timing)
        assert timing.runs == ROUNDS * RUNS
        assert 0 < timing.median_ms < 100
        assert timing.spread_ms < timing.median_ms
    assert [timing.candidate for timing in one] == ["fp16", "int8"]
    assert eight[0].median_ms > 0.8 * one[0].median_ms
    again = backend.time(candidates[:1], 8)
    assert again[0].median_ms == pytest.approx(eight[0].median_ms, rel=0.3)


def test_layers_take_the_time_of_the_whole(backend: TensorRtBackend, plan: Callable[..., Path]) -> None:
    candidate = built("fp16", plan("yunet_n"))
    layers, whole = backend.layer_times(candidate), backend.time([candidate], 1)[0]
    assert len(layers) > 10
    assert 0.3 * whole.median_ms < sum(layers.values()) < 10 * whole.median_ms


def test_a_second_build_takes_kernel_times_from_the_cache(backend: TensorRtBackend, out: Path) -> None:
    graph = (GRAPHS / "yunet_n_small.onnx").read_bytes()
    told: list[str] = []
    first = backend.build(Candidate("first", frozenset(), graph), progress=told.append)
    cache = timing_cache_path(out, this_device())
    assert cache.stat().st_size > 0
    second = backend.build(Candidate("second", frozenset(), graph), progress=told.append)
    print(f"{first.seconds:.1f} s, then {second.seconds:.1f} s")
    assert second.seconds < first.seconds * 1.2
    backend.open(second).close()
