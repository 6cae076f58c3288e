"""Every network in INT8, in ONNX Runtime: valid, and near the float one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from calibration.placement import place
from calibration.quantize import calibrated_tensors, quantize
from tests.harness.networks import NETWORKS, network, run, sqnr_db

# Signal to noise against float, in dB: what was measured less 3. Limits of a regression, not of what is good enough:
# that is decided on faces. RetinaFace is known to suffer.
LIMITS_DB = {
    "yunet_n": (27, 22), "centerface": (25, 16), "scrfd_500m": (26, 18), "retinaface_mb025": (14, 9),
    "mobileface": (18, 16), "realesr": (31, 30), "generator": (24, 23),
}   # fmt: skip


@pytest.mark.parametrize("which", ["dense", "all"])
@pytest.mark.parametrize("name", NETWORKS)
def test_int8_is_near_float(name: str, which: str, shared_data: Path) -> None:
    net = network(name, shared_data)
    quantised = net.quantised(which)
    found = sqnr_db(run(net.graph, net.feed), run(quantised, net.feed))
    print(f"{name} {which}: {found:.1f} dB")
    assert found > LIMITS_DB[name][which == "all"]


@pytest.mark.parametrize("name", NETWORKS)
def test_nodes_are_what_every_reader_accepts(name: str, shared_data: Path) -> None:
    net = network(name, shared_data)
    graph = net.quantised("all").graph
    assert [entry.version for entry in net.quantised("all").opset_import] == [13]
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    quantised = {node.output[0]: node for node in graph.node if node.op_type == "QuantizeLinear"}
    restored = {node.output[0]: node for node in graph.node if node.op_type == "DequantizeLinear"}
    assert len(quantised) == len(restored) == len({node.input[0] for node in quantised.values()})
    for node in (*quantised.values(), *restored.values()):
        scale, zero = (constants[name] for name in node.input[1:])
        assert scale.dtype == np.float32 and (scale > 0).all() and np.isfinite(scale).all()
        assert zero.dtype == np.int8 and not zero.any() and zero.shape == scale.shape
    for node in restored.values():
        assert list(node.input[1:]) == list(quantised[node.input[0]].input[1:])
    for node in graph.node:
        if node.output[0] in net.chosen("all"):
            data, weights, *bias = node.input
            assert data in restored and constants[restored[data].input[1]].shape == ()
            assert constants[restored[weights].input[1]].ndim == 1
            assert all(constants[name].dtype == np.float32 for name in bias)
    assert not any(tensor.data_type == TensorProto.INT32 for tensor in graph.initializer)


@pytest.mark.parametrize("name", NETWORKS)
def test_any_choice_of_layers_needs_no_other_ranges(name: str, shared_data: Path) -> None:
    graph = network(name, shared_data).graph
    every = sorted(network(name, shared_data).chosen("all"))
    known = set(calibrated_tensors(graph))
    random = np.random.default_rng(3)
    for share in (0.1, 0.5, 0.9, 1.0):
        chosen = [layer for layer in every if random.random() < share]
        assert set(place(graph, chosen).ranged) <= known
        assert calibrated_tensors(graph, chosen) == place(graph, chosen).ranged


def test_no_layers_is_the_same_network(shared_data: Path) -> None:
    net = network("generator", shared_data)
    same = quantize(net.graph, {}, ())
    assert [node.op_type for node in same.graph.node] == [node.op_type for node in net.graph.graph.node]
    assert isinstance(same, onnx.ModelProto)
