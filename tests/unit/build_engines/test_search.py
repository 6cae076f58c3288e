"""The search, on a small real network with ONNX Runtime, and with backends that misbehave."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from build_engines.backend import Built, Candidate, Tell, Timing
from build_engines.fidelity import compare_embeddings
from build_engines.judge import FidelityJudge
from build_engines.network import Network
from build_engines.onnx_backend import OnnxBackend
from build_engines.search import Search, SearchOptions, SearchResult
from build_engines.sensitivity import best_method, groups, measure, outputs
from calibration.collect import collect
from calibration.observers import METHODS, Method, amax
from calibration.quantize import calibrated_tensors
from edge.errors import BuildError, DeviceLostError, UnavailableError

SIZE = 32


class Quiet:
    """Remembers what a search says."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def step(self, done: int, total: int) -> None:
        assert 0 < done <= total

    def note(self, text: str) -> None:
        self.notes.append(text)


def small_model(layers: int = 6, channels: int = 16) -> onnx.ModelProto:
    """Convolutions in a row; the fourth has weights that vary so much between channels that INT8 hurts."""
    random, nodes, weights, tensor, depth = np.random.default_rng(1), [], [], "picture_in", 3
    for number in range(layers):
        values = random.normal(0, 1.5 / np.sqrt(9 * depth), (channels, depth, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(values, f"w{number}"))
        nodes.append(helper.make_node("Conv", [tensor, f"w{number}"], [f"conv{number}"], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"conv{number}"], [f"relu{number}"]))
        tensor, depth = f"relu{number}", channels
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info("picture_in", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info(tensor, TensorProto.FLOAT, [1, channels, SIZE, SIZE])],
        weights,
    )   # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.fixture(scope="module")
def network() -> Network:
    random = np.random.default_rng(2)
    feeds = tuple({"picture_in": random.normal(size=(1, 3, SIZE, SIZE)).astype(np.float32)} for _ in range(3))
    return Network("small", "Small", small_model(), "0" * 64, SIZE, SIZE, feeds)


@pytest.fixture(scope="module")
def ranges(network: Network) -> Mapping[Method, dict[str, float]]:
    histograms = collect(network.reference, network.samples, calibrated_tensors(network.reference))
    return {method: amax(histograms, method) for method in METHODS}


@pytest.fixture
def backend(tmp_path: Path, network: Network) -> OnnxBackend:
    return OnnxBackend(tmp_path, SIZE, SIZE, network.samples[0])


def judge_of(network: Network, least: float = 0.9) -> FidelityJudge:
    feeds = network.samples
    return FidelityJudge(feeds, outputs(network.reference, feeds), compare_embeddings, least, least)


def searched(
    network: Network, backend: OnnxBackend, ranges: Mapping[Method, dict[str, float]], least: float = 0.9,
    display: Quiet | None = None, **options: object,
) -> SearchResult:      # fmt: skip
    judge = judge_of(network, least)
    given = SearchOptions(**options)  # type: ignore[arg-type]
    return Search(network, backend, judge, ranges.__getitem__, given, display or Quiet()).run()


class Timed(OnnxBackend):
    """Real builds and runs; what they take is written down, so that decisions can be tested. ms: by name."""

    ms: Mapping[str, float] = {}
    layer_ms: Mapping[str, Mapping[str, float]] = {}
    broken: Sequence[str] = ()
    fails_in_time: Sequence[str] = ()

    def build(self, candidate: Candidate, half: bool = True, progress: Tell = print) -> Built:
        if candidate.name in self.broken:
            raise BuildError("the library said no", "see there")
        return super().build(candidate, half, progress)

    def time(self, built: Sequence[Built], batch: int) -> list[Timing]:
        for one in built:
            if one.candidate.name in self.fails_in_time:
                raise UnavailableError("it cannot run")
        return [Timing(one.candidate.name, batch, self.ms.get(one.candidate.name, 1.0), 0.0, 9) for one in built]

    def layer_times(self, built: Built) -> dict[str, float]:
        return dict(self.layer_ms.get(built.candidate.name, {}))


@pytest.fixture
def timed(tmp_path: Path, network: Network) -> Iterator[Timed]:
    yield Timed(tmp_path, SIZE, SIZE, network.samples[0])


def test_a_real_search_decides_by_what_it_measured(
    network: Network, backend: OnnxBackend, ranges: Mapping[Method, dict[str, float]]
) -> None:
    display = Quiet()
    result = searched(network, backend, ranges, display=display)
    names = [trial.name for trial in result.trials]
    assert names[:3] == ["fp32", "int8-all", "int8-wide"]
    assert all(trial.timings and trial.verdict is not None for trial in result.trials)
    assert result.choice.kept in names
    assert set(result.methods) == set(METHODS)
    assert any("building int8-all" in stage for stage in display.stages)


def test_fast_int8_that_is_close_enough_is_kept(
    network: Network, timed: Timed, ranges: Mapping[Method, dict[str, float]]
) -> None:
    timed.ms = {"fp32": 2.0, "int8-all": 1.0, "int8-wide": 1.5}
    assert searched(network, timed, ranges).choice.kept == "int8-all"


def test_noisy_layers_go_back_when_int8_is_fast_but_wrong(
    network: Network, timed: Timed, ranges: Mapping[Method, dict[str, float]]
) -> None:
    timed.ms = {"fp32": 2.0}
    reference = outputs(network.reference, network.samples)
    everywhere = outputs(network.quantized(ranges["minmax"], network.quantisable), network.samples)
    least = compare_embeddings(reference, everywhere).worst
    result = searched(network, timed, ranges, least=(1 + least) / 2)
    quiet = [trial for trial in result.trials if "quiet" in trial.name]
    assert quiet
    assert all(0 < trial.int8_layers < len(network.quantisable) for trial in quiet)
    assert result.noise
    verdicts = {trial.name: trial.verdict for trial in result.trials}
    worst = {name: verdict.scores["cosine_worst"] for name, verdict in verdicts.items() if verdict is not None}
    assert max(worst[trial.name] for trial in quiet) > worst["int8-all"]


def test_slow_layers_go_back_when_int8_is_slow(
    network: Network, timed: Timed, ranges: Mapping[Method, dict[str, float]]
) -> None:
    timed.ms = {"fp32": 2.0, "int8-all": 3.0, "int8-wide": 3.0, "int8-all-quick": 1.0}
    names = [layer.name for layer in network.layers]
    timed.layer_ms = {
        "fp32": dict.fromkeys(names, 1.0),
        "int8-all": {name: 0.5 if number % 2 else 2.0 for number, name in enumerate(names)},
        "int8-wide": dict.fromkeys(names, 2.0),
    }
    result = searched(network, timed, ranges)
    assert result.choice.kept == "int8-all-quick"
    assert result.plans["int8-all-quick"].int8 == frozenset(names[1::2])


def test_forced_int8_is_kept_though_it_is_slow_but_not_when_it_is_wrong(
    network: Network, timed: Timed, ranges: Mapping[Method, dict[str, float]]
) -> None:
    timed.ms = {"fp32": 1.0, "int8-wide": 3.0, "int8-all": 4.0}
    assert searched(network, timed, ranges).choice.kept == "fp32"
    forced = searched(network, timed, ranges, force_int8=True)
    assert forced.choice.kept is not None
    assert forced.choice.kept.startswith("int8")
    assert searched(network, timed, ranges, least=1 - 1e-9, force_int8=True).choice.kept == "fp32"


def test_a_candidate_that_cannot_be_built_or_run_is_left_out(
    network: Network, timed: Timed, ranges: Mapping[Method, dict[str, float]]
) -> None:
    timed.broken, timed.fails_in_time = ["int8-all"], ["int8-wide"]
    display = Quiet()
    result = searched(network, timed, ranges, display=display)
    failures = {trial.name: trial.failure for trial in result.trials if trial.failure}
    assert failures == {"int8-all": "the library said no", "int8-wide": "it cannot run"}
    assert result.choice.kept == "fp32"
    assert any("the library said no; see there" in note for note in display.notes)


def test_nothing_that_works_is_an_error(
    network: Network, timed: Timed, ranges: Mapping[Method, dict[str, float]]
) -> None:
    timed.broken = ["fp32", "int8-all", "int8-wide"]
    with pytest.raises(UnavailableError, match=r"no candidate can be used .*the library said no"):
        searched(network, timed, ranges)


def test_a_lost_gpu_ends_the_search(
    network: Network, timed: Timed, ranges: Mapping[Method, dict[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(built: Sequence[Built], batch: int) -> list[Timing]:
        raise DeviceLostError("gone")

    monkeypatch.setattr(timed, "time", lost)
    with pytest.raises(DeviceLostError):
        searched(network, timed, ranges)


def test_no_candidate_is_begun_after_the_time_is_up(
    network: Network, timed: Timed, ranges: Mapping[Method, dict[str, float]]
) -> None:
    result = searched(network, timed, ranges, deadline_s=time.monotonic() - 1)
    assert [trial.name for trial in result.trials] == ["fp32"]
    assert "int8-all was not tried: the time was up" in result.notes
    assert result.choice.kept == "fp32"


def test_without_int8_only_the_base_is_built(
    network: Network, timed: Timed, ranges: Mapping[Method, dict[str, float]]
) -> None:
    result = searched(network, timed, ranges, precision="fp32")
    assert [trial.name for trial in result.trials] == ["fp32"]
    assert result.choice.why == "no INT8 was asked for or possible"


def test_the_same_measurements_give_the_same_search(
    network: Network, timed: Timed, ranges: Mapping[Method, dict[str, float]]
) -> None:
    timed.ms = {"fp32": 2.0}
    first, second = (searched(network, timed, ranges, least=0.9999) for _ in range(2))
    assert first.trials == second.trials
    assert first.choice == second.choice
    assert first.noise == second.noise


def test_groups_cover_every_layer_once_with_heads_apart(network: Network) -> None:
    parts = groups(network, network.quantisable, 3)
    assert [name for part in parts for name in part] == [layer.name for layer in network.layers]
    assert len(parts) == 3
    assert parts[-1] == ("conv5",)


def test_noise_of_groups_adds_up(network: Network, ranges: Mapping[Method, dict[str, float]]) -> None:
    parts = groups(network, network.quantisable)
    measured = measure(network, ranges["mse"], parts)
    together = measure(network, ranges["mse"], [tuple(network.quantisable)])[0].noise
    assert together == pytest.approx(sum(part.noise for part in measured), rel=0.5)


def test_the_method_with_the_least_noise_is_taken(
    network: Network, ranges: Mapping[Method, dict[str, float]]
) -> None:
    coarse = dict(ranges) | {"minmax": {name: 100 * value for name, value in ranges["minmax"].items()}}
    method, noise = best_method(network, network.quantisable, coarse.__getitem__)
    assert method == min(noise, key=lambda each: noise[each])
    assert noise["minmax"] == max(noise.values())
