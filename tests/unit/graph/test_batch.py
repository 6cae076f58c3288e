"""Several pictures in one run give what each gives alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edge.errors import UnavailableError
from edge.graph.batch import fix_size, free_batch
from edge.graph.names import INPUT
from edge.inference.onnx_runtime import load_onnxruntime
from edge.inference.prepare import reference_graph
from edge.models.description import description
from tests.unit.models.published import NAMES, model_file


def run(graph: onnx.ModelProto, picture: np.ndarray) -> list[np.ndarray]:  # type: ignore[type-arg]
    session = load_onnxruntime().InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, {graph.graph.input[0].name: picture}))


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_gives_what_its_pictures_give_alone(name: str, shared_data: Path) -> None:
    reference = reference_graph(model_file(shared_data, name).read_bytes(), description(name))
    before = reference.SerializeToString()
    graph = fix_size(free_batch(reference), None, 128, 192)
    assert reference.SerializeToString() == before
    onnx.checker.check_model(graph, full_check=True)
    pictures = np.random.default_rng(1).integers(0, 256, (3, 128, 192, 3), np.uint8)
    together = run(graph, pictures)
    for place in range(3):
        for expected, found in zip(run(reference, pictures[place : place + 1]), together, strict=True):
            np.testing.assert_allclose(found[place : place + 1], expected, rtol=1e-4, atol=1e-4)
    for value in graph.graph.output:
        batch, *sides = value.type.tensor_type.shape.dim
        assert batch.dim_param == "batch" and all(side.dim_value > 0 for side in sides)


def test_bytes_go_into_nothing_but_a_cast(shared_data: Path) -> None:
    graph = free_batch(reference_graph(model_file(shared_data, "yunet_n").read_bytes(), description("yunet_n"))).graph
    assert [node.op_type for node in graph.node if INPUT in node.input] == ["Cast"]


def small(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    picture = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 6, 8])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    output.type.tensor_type.shape.dim.add().dim_value = 1
    constants = [
        helper.make_tensor("flat", TensorProto.INT64, [2], [1, 4 * 6 * 8]),
        helper.make_tensor("mixed", TensorProto.INT64, [2], [4, 48]),
        helper.make_tensor("double", TensorProto.INT64, [4], [1, 4, 12, 16]),
        helper.make_tensor("ones", TensorProto.INT64, [4], [1, 1, 1, 1]),
    ]
    graph = helper.make_graph(list(nodes), "g", [picture], [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize(
    "node",
    [helper.make_node("Reshape", ["x", "flat"], ["y"]),
     helper.make_node("Resize", ["x", "", "", "double"], ["y"], mode="nearest")],
    ids=["reshape", "resize"],
)  # fmt: skip
def test_constant_shapes_take_the_batch_from_their_input(node: onnx.NodeProto) -> None:
    graph = free_batch(small(node))
    value = np.random.default_rng(2).normal(size=(3, 4, 6, 8)).astype(np.float32)
    (together,) = run(graph, value)
    np.testing.assert_array_equal(together, np.concatenate([run(small(node), value[[k]])[0] for k in range(3)]))


@pytest.mark.parametrize(
    ("node", "why"),
    [(helper.make_node("Reshape", ["x", "mixed"], ["y"]), "mixes the batch"),
     (helper.make_node("Tile", ["x", "ones"], ["y"]), "one picture")],
)  # fmt: skip
def test_what_works_for_one_picture_only_is_refused(node: onnx.NodeProto, why: str) -> None:
    with pytest.raises(UnavailableError, match=why):
        free_batch(small(node))
