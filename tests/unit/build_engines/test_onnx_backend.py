"""Building, opening, timing and profiling with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from build_engines.backend import Candidate
from build_engines.network import Network, detector_network
from build_engines.onnx_backend import OnnxBackend
from build_engines.timing import by_layer
from edge.engines.probe import probe_input
from edge.errors import BuildError
from edge.models.choose import identify

SIZE = (96, 160)


@pytest.fixture(scope="module")
def network(default_model: Path) -> Network:
    return detector_network(identify(default_model), *SIZE)


@pytest.fixture
def backend(tmp_path: Path) -> OnnxBackend:
    return OnnxBackend(tmp_path / "work", *SIZE)


def test_what_is_built_runs_and_is_timed(network: Network, backend: OnnxBackend) -> None:
    ones = {name: 1.0 for layer in network.layers for name in (layer.activation, layer.name)}
    plans = {"fp32": frozenset[str](), "int8": network.quantisable}
    amax = dict.fromkeys([*ones, *(value.name for value in network.reference.graph.input)], 1.0)
    amax.update((name, 1.0) for node in network.reference.graph.node for name in node.output)
    built = [
        backend.build(Candidate(name, plan, network.final("onnxruntime", amax, plan))) for name, plan in plans.items()
    ]
    assert [one.bytes for one in built] == [one.payload.stat().st_size for one in built]
    for one in built:
        runtime = backend.open(one)
        maps = runtime.run(probe_input(*SIZE))
        runtime.close()
        assert set(maps) == {value.name for value in network.reference.graph.output}
    times = backend.time(built, 1)
    assert [one.candidate for one in times] == ["fp32", "int8"]
    assert all(one.median_ms > 0 for one in times)
    with pytest.raises(ValueError, match="one picture at a time"):
        backend.time(built, 8)


def test_a_profile_names_the_layers(network: Network, backend: OnnxBackend, tmp_path: Path) -> None:
    built = backend.build(Candidate("fp32", frozenset(), network.final("onnxruntime", {}, ())))
    times = backend.layer_times(built)
    layers = by_layer(times, network.owners())
    named = [name for name, milliseconds in layers.items() if milliseconds > 0]
    assert len(named) >= 0.9 * len(layers)
    assert sum(layers.values()) > 0.1 * sum(times.values())     # half and more on an idle machine
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["fp32.onnx"]


@pytest.mark.parametrize("graph", [b"garbage", b""])
def test_what_is_no_graph_is_a_build_error(backend: OnnxBackend, graph: bytes) -> None:
    with pytest.raises(BuildError, match="ONNX Runtime cannot run broken"):
        backend.build(Candidate("broken", frozenset(), graph))


def test_final_graphs_give_the_same_numbers(network: Network, backend: OnnxBackend) -> None:
    picture = probe_input(*SIZE)
    found = []
    for kind in ("onnxruntime", "tensorrt"):
        graph = network.final(kind, {}, ())     # type: ignore[arg-type]
        runtime = backend.open(backend.build(Candidate(kind, frozenset(), graph)))
        found.append(runtime.run(picture))
        runtime.close()
    for name, values in found[0].items():
        np.testing.assert_allclose(values, found[1][name], atol=2e-4)
