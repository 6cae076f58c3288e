"""FP16 in the graph: what stays float32, what happens to numbers that FP16 does not have, and how near results are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from build_engines.half import LARGEST, half_constant, half_scales, out_of_range, to_half
from edge.graph.index import Array
from tests.harness.networks import NETWORKS, network, run, sqnr_db

LIMIT_DB = 43      # 40 dB is an error of a hundredth; 46 was the worst seen


def types(graph: onnx.ModelProto) -> dict[str, int]:
    inferred = onnx.shape_inference.infer_shapes(graph, strict_mode=True).graph
    found = {tensor.name: tensor.data_type for tensor in inferred.initializer}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        found[value.name] = value.type.tensor_type.elem_type
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_half_is_near_float(name: str, shared_data: Path) -> None:
    net = network(name, shared_data)
    before = net.graph.SerializeToString()
    half = to_half(net.graph)
    assert net.graph.SerializeToString() == before
    assert out_of_range(net.graph) == ()
    for ours, theirs in ((half.graph.input, net.graph.graph.input), (half.graph.output, net.graph.graph.output)):
        assert [(value.name, value.type) for value in ours] == [(value.name, value.type) for value in theirs]
    kinds = types(half)
    for node in half.graph.node:
        if node.op_type in ("Conv", "ConvTranspose", "Gemm", "PRelu"):
            assert {kinds[each] for each in (*node.input, *node.output)} == {TensorProto.FLOAT16}
    found = sqnr_db(run(net.graph, net.feed), run(half, net.feed))
    print(f"{name}: {found:.1f} dB")
    assert found > LIMIT_DB


@pytest.mark.parametrize("name", NETWORKS)
def test_int8_in_half_is_as_near_to_float_as_int8(name: str, shared_data: Path) -> None:
    net = network(name, shared_data)
    quantised = net.quantised("dense")
    half = to_half(quantised)
    pairs = ("QuantizeLinear", "DequantizeLinear")
    kinds = types(half)
    for node in half.graph.node:
        if node.op_type in pairs:
            assert {kinds[each] for each in (*node.input, *node.output)} == {TensorProto.FLOAT16, TensorProto.INT8}
    for op in pairs:
        assert [n.op_type for n in half.graph.node].count(op) == [n.op_type for n in quantised.graph.node].count(op)
    wanted = run(net.graph, net.feed)
    loss = sqnr_db(wanted, run(quantised, net.feed)) - sqnr_db(wanted, run(half, net.feed, optimised=False))
    assert loss < 3


def test_statistics_over_a_map_stay_float(shared_data: Path) -> None:
    kinds = types(to_half(network("generator", shared_data).graph))
    float_ones = [name for name, kind in kinds.items() if kind == TensorProto.FLOAT and name.startswith("block_0_1_")]
    made = {name.removeprefix("block_0_1_") for name in float_ones}
    assert {"mean", "squared", "variance", "positive", "deviation", "factor", "epsilon"} <= made
    assert not {"centred", "normal", "scaled", "styled", "gamma"} & made


def small(nodes: Sequence[onnx.NodeProto], constants: dict[str, Array], outputs: Sequence[str]) -> onnx.ModelProto:
    picture = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 4, 4))
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4) for name in outputs]
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(list(nodes), "g", [picture], results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


node = helper.make_node
GRAPHS = {
    "an output that is also read": (
        [node("Relu", ["x"], ["y"]), node("Sigmoid", ["y"], ["z"])], {}, ["y", "z"],
    ),
    "an input that is an output of nothing but a copy": ([node("Identity", ["x"], ["y"])], {}, ["y"]),
    "numbers about an enlargement": (
        [node("Resize", ["x", "", "factors"], ["y"], mode="linear")],
        {"factors": np.asarray([1, 1, 2.5, 1.7], np.float32)}, ["y"],
    ),
    "one constant for both types": (
        [node("Mul", ["x", "c"], ["m"]), node("ReduceMean", ["x"], ["r"], axes=[2, 3]), node("Pow", ["r", "c"], ["p"]),
         node("Add", ["m", "p"], ["y"])],
        {"c": np.full(1, 2, np.float32)}, ["y"],
    ),
    "squares beyond the range": (
        [node("Mul", ["x", "big"], ["b"]), node("Mul", ["b", "b"], ["s"]),
         node("ReduceMean", ["s"], ["v"], axes=[2, 3]), node("Sqrt", ["v"], ["d"]), node("Div", ["b", "d"], ["y"])],
        {"big": np.full(1, 3000, np.float32)}, ["y"],
    ),
}   # fmt: skip


@pytest.mark.parametrize("case", GRAPHS)
def test_small_graphs(case: str) -> None:
    graph = small(*GRAPHS[case])
    feed = {"x": np.random.default_rng(2).uniform(-1, 1, (1, 2, 4, 4)).astype(np.float32)}
    assert sqnr_db(run(graph, feed), run(to_half(graph), feed)) > 60


def test_numbers_that_half_does_not_have() -> None:
    value = np.asarray([1e6, -1e6, 1e-9, 1e-8, -3e-8, 0, 1.5], np.float32)
    half = half_constant(value)
    tiny = np.float16(2.0**-24)
    assert half.tolist() == [LARGEST, -LARGEST, 0, 0, -tiny, 0, 1.5]
    graph = small([node("Mul", ["x", "big"], ["y"])], {"big": np.full(1, 7e4, np.float32)}, ["y"])
    assert out_of_range(graph) == ("big",)
    found = run(to_half(graph), {"x": np.full((1, 2, 4, 4), 0.5, np.float32)})
    assert (found[0] == LARGEST / 2).all()


def test_scales_never_cut_the_range() -> None:
    scales = 10.0 ** np.random.default_rng(4).uniform(-12, 2, 4000)
    half = half_scales(scales.astype(np.float32)).astype(np.float64)
    assert (half >= scales * (1 - 2.0**-10)).all()
    assert (half[scales > 1e-4] <= scales[scales > 1e-4] * (1 + 2.0**-10)).all()
