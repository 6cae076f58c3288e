"""Which layers a network has, and what each is like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge.graph.layers import Layer, layers
from edge.inference.prepare import reference_graph
from edge.models.description import description
from tests.unit.models.published import NAMES, model_file


def small() -> onnx.ModelProto:
    shapes = {
        "dense_w": (8, 3, 3, 3), "deep_w": (8, 1, 3, 3), "grouped_w": (8, 4, 3, 3), "point_w": (4, 8, 1, 1),
        "up_w": (8, 2, 2, 2), "fc_w": (5, 12), "mm_w": (5, 7),
    }   # fmt: skip
    tensors = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in shapes.items()]
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "dense_w"], ["dense"], kernel_shape=[3, 3]),
        node("Conv", ["dense", "deep_w"], ["deep"], group=8, kernel_shape=[3, 3]),
        node("Conv", ["dense", "grouped_w"], ["grouped"], group=2, kernel_shape=[3, 3]),
        node("Add", ["deep", "grouped"], ["sum"]),
        node("Conv", ["sum", "point_w"], ["point"]),
        node("ConvTranspose", ["sum", "up_w"], ["up"], group=4),
        node("ReduceMean", ["point"], ["mean"], axes=[2], keepdims=0),
        node("Gemm", ["flat", "fc_w"], ["fc"], transB=1),
        node("MatMul", ["fc", "mm_w"], ["mm"]),
        node("MatMul", ["fc", "varies"], ["not_a_layer"]),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "flat", "varies")]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("mean", "up", "mm")]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, tensors))


def test_kinds_channels_and_places() -> None:
    assert layers(small()) == (
        Layer("dense", "Conv", "dense", 3, 8, (3, 3), True, False, "x", "dense_w"),
        Layer("deep", "Conv", "depthwise", 8, 8, (3, 3), False, False, "dense", "deep_w"),
        Layer("grouped", "Conv", "dense", 8, 8, (3, 3), False, False, "dense", "grouped_w"),
        Layer("point", "Conv", "pointwise", 8, 4, (1, 1), False, True, "sum", "point_w"),
        Layer("up", "ConvTranspose", "transposed", 8, 8, (2, 2), False, True, "sum", "up_w"),
        Layer("fc", "Gemm", "gemm", 12, 5, (), True, False, "flat", "fc_w"),
        Layer("mm", "MatMul", "gemm", 5, 7, (), False, True, "fc", "mm_w"),
    )


@pytest.mark.parametrize("name", NAMES)
def test_real_detectors_start_once_and_end_in_their_maps(name: str, shared_data: Path) -> None:
    graph = reference_graph(model_file(shared_data, name).read_bytes(), description(name))
    found = layers(graph)
    assert [layer.in_channels for layer in found if layer.first] == [3]
    assert {layer.name for layer in found if layer.last} == {value.name for value in graph.graph.output}
    assert len({layer.name for layer in found}) == len(found)
