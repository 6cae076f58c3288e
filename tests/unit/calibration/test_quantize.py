"""Where Q/DQ nodes go and what they hold, on small graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from calibration.collect import collect
from calibration.observers import amax
from calibration.placement import place, possible_tensors, quantisable
from calibration.quantize import quantize, weight_scales
from edge.errors import ConfigError
from edge.graph.index import Array, GraphIndex, attributes
from tests.harness.networks import run, sqnr_db

node = helper.make_node
RANDOM = np.random.default_rng(11)
SHAPE = (1, 4, 8, 8)


def conv(source: str, name: str) -> onnx.NodeProto:
    """3x3, four channels in and out; its weights are made by `model`."""
    return node("Conv", [source, f"{name}_w", f"{name}_b"], [name], pads=[1, 1, 1, 1], kernel_shape=[3, 3])


def model(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], more: dict[str, Array] | None = None
) -> onnx.ModelProto:
    constants = dict(more or {})
    for each in nodes:
        if each.op_type == "Conv":
            constants.setdefault(each.input[1], RANDOM.normal(size=(4, 4, 3, 3)).astype(np.float32))
            constants.setdefault(each.input[2], RANDOM.normal(size=4).astype(np.float32))
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4) for name in outputs]
    picture = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    graph = helper.make_graph(list(nodes), "g", [picture], results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


FACTORS = np.asarray([1, 1, 2, 2], np.float32)
CASES = {
    "one pair for all readers, none for a float reader": (
        [conv("x", "a"), node("Relu", ["a"], ["r"]), conv("r", "b"), conv("r", "c"), node("Sigmoid", ["r"], ["s"])],
        "b c s", "b c", {"r": "b0 c0"}, [],
    ),
    "layers left in float stay as they are": (
        [conv("x", "a"), conv("a", "b"), conv("b", "c")], "c", "a c", {"x": "a0", "b": "c0"}, [],
    ),
    "skip branch of an addition, not the convolution": (
        [conv("x", "a"), conv("a", "b"), node("Add", ["b", "a"], ["sum"]), conv("sum", "c")],
        "c", "a b c", {"x": "a0", "a": "b0 sum1", "sum": "c0"}, [],
    ),
    "no skip when the sum stays float": (
        [conv("x", "a"), conv("a", "b"), node("Add", ["b", "a"], ["sum"])], "sum", "a b", {"x": "a0", "a": "b0"}, [],
    ),
    "no skip when the convolution stays float": (
        [conv("x", "a"), conv("a", "b"), node("Add", ["b", "a"], ["sum"]), conv("sum", "c")],
        "c", "a c", {"x": "a0", "sum": "c0"}, [],
    ),
    "no skip when something else reads the convolution": (
        [conv("x", "a"), conv("a", "b"), node("Add", ["b", "a"], ["sum"]), conv("sum", "c"),
         node("Sigmoid", ["b"], ["s"])],
        "c s", "a b c", {"x": "a0", "a": "b0", "sum": "c0"}, [],
    ),
    "of two convolutions the later fuses": (
        [conv("x", "a"), conv("x", "b"), node("Add", ["a", "b"], ["sum"]), node("Relu", ["sum"], ["r"]),
         conv("r", "c")],
        "c", "a b c", {"x": "a0 b0", "a": "sum0", "r": "c0"}, [],
    ),
    "a sum that is the next sum's skip": (
        [conv("x", "a"), conv("a", "b"), node("Add", ["a", "b"], ["one"]), conv("one", "c"),
         node("Add", ["one", "c"], ["two"]), conv("two", "d")],
        "d", "b c d", {"a": "b0 one0", "one": "c0 two0", "two": "d0"}, [],
    ),
    "concatenated tensors share a scale and go in quantised": (
        [conv("x", "a"), conv("x", "b"), node("Concat", ["a", "b"], ["both"], axis=2), conv("both", "c")],
        "c", "c", {"a": "both0", "b": "both1", "both": "c0"}, [("a", "b", "both")],
    ),
    "pooling between two quantised tensors": (
        [conv("x", "a"), conv("a", "b"), node("MaxPool", ["a"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
         conv("p", "c")],
        "b c", "b c", {"a": "b0 p0", "p": "c0"}, [("a", "p")],
    ),
    "enlarging ends INT8": (
        [conv("x", "a"), conv("a", "b"), node("Resize", ["a", "", "factors"], ["l"], mode="nearest"), conv("l", "c")],
        "b c", "b", {"a": "b0"}, [],
    ),
    "an enlarged skip branch is not quantised": (
        [node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), conv("p", "a"),
         node("Resize", ["a", "", "factors"], ["l"], mode="nearest"), conv("x", "b"),
         node("Add", ["l", "b"], ["s"]), conv("s", "c")],
        "c", "b c", {"x": "b0", "s": "c0"}, [],
    ),
    "through several that move values only": (
        [conv("x", "a"), conv("a", "b"), node("Transpose", ["a"], ["t"], perm=[0, 1, 3, 2]),
         node("Identity", ["t"], ["i"]), conv("i", "c")],
        "b c", "b c", {"a": "b0 t0", "i": "c0"}, [("a", "i")],
    ),
}   # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_placement(case: str) -> None:
    nodes, outputs, int8, expected, shared = CASES[case]
    graph = model(nodes, outputs.split(), {"factors": FACTORS})
    placement = place(graph, int8.split())
    found = {name: " ".join(sorted(f"{reader}{slot}" for reader, slot in e)) for name, e in placement.readers.items()}
    assert found == {name: " ".join(sorted(edges.split())) for name, edges in expected.items()}
    groups = {name: {other for other in found if placement.group[other] == placement.group[name]} for name in found}
    together = {name: set(names) for names in shared for name in names}
    assert groups == {name: together.get(name, {name}) for name in found}
    assert set(placement.ranged) <= set(possible_tensors(graph))

    feed = {"x": RANDOM.normal(size=SHAPE).astype(np.float32)}
    quantised = quantize(graph, amax(collect(graph, [feed], placement.ranged), "minmax"), int8.split())
    assert sqnr_db(run(graph, feed), run(quantised, feed)) > 20


def constants(graph: onnx.ModelProto) -> dict[str, Array]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}


def test_a_group_has_the_widest_range_in_it() -> None:
    nodes, outputs, *_ = CASES["pooling between two quantised tensors"]
    graph = quantize(model(nodes, outputs.split()), {"a": 3.0, "p": 5.0}, ["b", "c"])
    index = GraphIndex(graph.graph)
    scales = {index.constant(index.producers[f"{name}/int8"].input[1]).item() for name in ("a", "p")}
    assert scales == {np.float32(5 / 127)}


@pytest.mark.parametrize(
    ("op", "values", "shape", "axis"),
    [("Gemm", {"transB": 1}, (5, 4), 0), ("Gemm", {}, (4, 5), 1), ("MatMul", {}, (4, 5), 1)],
)
def test_weights_have_a_scale_per_output(op: str, values: dict[str, int], shape: tuple[int, ...], axis: int) -> None:
    weights = (RANDOM.normal(size=shape) * 10.0 ** np.arange(5).reshape(-1, 1 if axis == 0 else 5)[: shape[0]]).astype(
        np.float32
    )
    flat = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4))
    graph = helper.make_model(
        helper.make_graph(
            [node(op, ["x", "w"], ["y"], **values)], "g", [flat],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 2)],
            [numpy_helper.from_array(weights, "w")],
        ), opset_imports=[helper.make_opsetid("", 13)], ir_version=8,
    )   # fmt: skip
    quantised = quantize(graph, {"x": 3.0}, ["y"])
    pair = [each for each in quantised.graph.node if each.name.startswith("w/")]
    assert [each.op_type for each in pair] == ["QuantizeLinear", "DequantizeLinear"]
    assert [attributes(each)["axis"] for each in pair] == [axis, axis]
    np.testing.assert_allclose(constants(quantised)["w/scale"], np.abs(weights).max(axis=1 - axis) / 127)
    feed = {"x": RANDOM.uniform(-3, 3, (2, 4)).astype(np.float32)}
    assert sqnr_db(run(graph, feed), run(quantised, feed)) > 30


def test_weights_and_activations_that_are_all_zero() -> None:
    weights = np.zeros((4, 4, 3, 3), np.float32)
    weights[1] = 1e-44          # subnormal: its step would be 0
    assert (weight_scales(weights, 0) == 1).all()
    graph = quantize(model([conv("x", "a")], ["a"], {"a_w": weights}), {"x": 0.0}, ["a"])
    found = run(graph, {"x": RANDOM.normal(size=SHAPE).astype(np.float32)})
    assert np.isfinite(found[0]).all()


def test_shared_weights_are_quantised_once() -> None:
    second = node("Conv", ["a", "a_w", "b_b"], ["b"], pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    graph = quantize(model([conv("x", "a"), second], ["b"]), {"x": 4.0, "a": 40.0}, ["a", "b"])
    assert sum(each.op_type == "QuantizeLinear" for each in graph.graph.node) == 3
    onnx.checker.check_model(graph, full_check=True)


def test_an_older_opset_is_raised_and_the_argument_left_alone() -> None:
    graph = model([conv("x", "a")], ["a"])
    graph.opset_import[0].version = 11
    before = graph.SerializeToString()
    assert quantize(graph, {"x": 4.0}, ["a"]).opset_import[0].version == 13
    assert graph.SerializeToString() == before


@pytest.mark.parametrize(
    ("ranges", "what"),
    [({"x": 1.0}, "do not hold tensor a"), ({}, "do not hold tensor x and 1 more"),
     ({"x": 1.0, "a": float("nan")}, "range of tensor a is nan"), ({"x": -1.0, "a": 1.0}, "range of tensor x is -1")],
)  # fmt: skip
def test_ranges_that_are_missing_or_wrong(ranges: dict[str, float], what: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        quantize(model([conv("x", "a"), conv("a", "b")], ["b"]), ranges, ["a", "b"])
    assert caught.value.exit_code == 78
    assert "edge-build --int8" in caught.value.remedy


def test_layers_that_are_none_and_transposed_ones() -> None:
    graph = model(
        [conv("x", "a"), node("ConvTranspose", ["a", "t_w"], ["t"])], ["t"],
        {"t_w": RANDOM.normal(size=(4, 4, 2, 2)).astype(np.float32)},
    )   # fmt: skip
    assert quantisable(graph) == {"a"}
    for name in ("t", "nothing"):
        with pytest.raises(ValueError, match=name):
            quantize(graph, {"x": 1.0, "a": 1.0}, [name])


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_layers_behind_an_enlargement_stay_float(mode: str) -> None:
    enlarged = node("Resize", ["a", "", "factors"], ["l"], mode=mode)
    moved = node("Transpose", ["l"], ["m"], perm=[0, 1, 3, 2])
    graph = model([conv("x", "a"), enlarged, moved, conv("m", "c"), conv("c", "d")], ["d"], {"factors": FACTORS})
    assert quantisable(graph) == {"a", "d"}
