"""Max and Min under the names that runtimes fuse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge.graph.activations import name_activations
from edge.inference.onnx_runtime import load_onnxruntime

node = helper.make_node
CONSTANTS = {"zero": 0.0, "six": [6.0], "minus": -1.0, "vector": [0.0, 1.0, 0.0, 2.0]}


def model(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    tensors = [numpy_helper.from_array(np.asarray(each, np.float32), name) for name, each in CONSTANTS.items()]
    graph = helper.make_graph(
        list(nodes), "g", [value("x", TensorProto.FLOAT, (2, 3, 4)), value("z", TensorProto.FLOAT, (2, 3, 4))],
        [value(name, TensorProto.FLOAT, (2, 3, 4)) for name in outputs], tensors,
    )   # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize(
    ("nodes", "outputs", "expected"),
    [
        ([node("Max", ["x", "zero"], ["y"])], "y", ["Relu"]),
        ([node("Max", ["zero", "x"], ["y"])], "y", ["Relu"]),
        ([node("Max", ["x", "zero"], ["m"]), node("Min", ["m", "six"], ["y"])], "y", ["Clip"]),
        ([node("Max", ["x", "minus"], ["m"]), node("Min", ["six", "m"], ["y"])], "y", ["Clip"]),
        ([node("Max", ["x", "zero"], ["m"]), node("Min", ["m", "six"], ["y"])], "m y", ["Relu", "Min"]),
        ([node("Max", ["x", "minus"], ["y"])], "y", ["Max"]),
        ([node("Max", ["x", "vector"], ["y"])], "y", ["Max"]),
        ([node("Max", ["x", "z"], ["y"])], "y", ["Max"]),
        ([node("Min", ["x", "six"], ["y"])], "y", ["Min"]),
    ],
)
def test_names(nodes: Sequence[onnx.NodeProto], outputs: str, expected: Sequence[str]) -> None:
    before = model(nodes, outputs.split())
    after = name_activations(before)
    assert [each.op_type for each in after.graph.node] == expected
    onnx.checker.check_model(after, full_check=True)
    random = np.random.default_rng(1)
    feed = {name: random.normal(0, 5, (2, 3, 4)).astype(np.float32) for name in "xz"}
    open_session = load_onnxruntime().InferenceSession
    wanted, found = (
        open_session(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)
        for each in (before, after)
    )
    for want, got in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(got, want)
