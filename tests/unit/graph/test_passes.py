"""Each pass by itself, on small graphs: same numbers, other shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge.errors import UnavailableError
from edge.graph.clean import fold_batch_norm, free_size, raise_opset
from edge.graph.fold import fold_linear_pairs, unfold_transposed
from edge.graph.heads import expose_heads
from edge.graph.preprocess import fuse_input
from edge.graph.strips import split_into_strips
from edge.inference.onnx_runtime import load_onnxruntime

Array = npt.NDArray[Any]
RANDOM = np.random.default_rng(5)


def weights(*shape: int) -> Array:
    return RANDOM.normal(size=shape).astype(np.float32)


def model(
    nodes: Sequence[onnx.NodeProto], constants: dict[str, Array], shape: Sequence[int], outputs: Sequence[str] = ("y",)
) -> onnx.ModelProto:
    picture = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4) for name in outputs]
    graph = helper.make_graph(list(nodes), "g", [picture], results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def run(graph: onnx.ModelProto, value: Array) -> list[Array]:
    onnx.checker.check_model(graph, full_check=True)
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL      # ours are under test
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {graph.graph.input[0].name: value}))


def same(before: onnx.ModelProto, change: Callable[[onnx.ModelProto], onnx.ModelProto]) -> onnx.ModelProto:
    """Apply a pass; check that it left its argument alone and that results are those of before."""
    content = before.SerializeToString()
    after = change(before)
    assert before.SerializeToString() == content
    value = weights(*[dim.dim_value for dim in before.graph.input[0].type.tensor_type.shape.dim])
    for expected, found in zip(run(before, value), run(after, value), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    return after


def kinds(graph: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in graph.graph.node]


def norm_constants(channels: int) -> dict[str, Array]:
    return {
        "gamma": weights(channels), "beta": weights(channels), "mean": weights(channels),
        "variance": np.abs(weights(channels)) + 0.1,
    }   # fmt: skip


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("kind", "shape", "group", "channels"),
    [("Conv", (6, 4, 3, 3), 1, 6), ("Conv", (4, 1, 3, 3), 4, 4), ("ConvTranspose", (4, 6, 2, 2), 1, 6),
     ("ConvTranspose", (4, 3, 2, 2), 2, 6)],
)  # fmt: skip
def test_batch_norm_goes_into_the_weights(
    kind: str, shape: tuple[int, ...], group: int, channels: int, bias: bool
) -> None:
    inputs = ["x", "w", "b"] if bias else ["x", "w"]
    constants = {"w": weights(*shape), **({"b": weights(channels)} if bias else {}), **norm_constants(channels)}
    nodes = [
        helper.make_node(kind, inputs, ["c"], group=group, strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["y"], epsilon=1e-3),
    ]
    assert kinds(same(model(nodes, constants, (1, 4, 8, 8)), fold_batch_norm)) == [kind]


@pytest.mark.parametrize(("transposed", "alpha", "left"), [(0, 1.0, 1), (1, 1.0, 1), (1, 0.5, 2)])
def test_batch_norm_goes_into_a_matrix(transposed: int, alpha: float, left: int) -> None:
    constants = {"w": weights(*((6, 4) if transposed else (4, 6))), "b": weights(6), **norm_constants(6)}
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["c"], transB=transposed, alpha=alpha),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["y"], epsilon=1e-3),
    ]
    before = model(nodes, constants, (3, 4))
    del before.graph.output[0].type.tensor_type.shape.dim[2:]
    assert len(kinds(same(before, fold_batch_norm))) == left


def test_batch_norm_stays_where_the_convolution_is_used_twice() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["n"]),
        helper.make_node("Add", ["c", "n"], ["y"]),
    ]
    before = model(nodes, {"w": weights(4, 4, 1, 1), **norm_constants(4)}, (1, 4, 5, 5))
    assert kinds(same(before, fold_batch_norm)) == ["Conv", "BatchNormalization", "Add"]


@pytest.mark.parametrize(("channels", "expected"), [((16, 8, 2), 1), ((4, 2, 16), 2)])
def test_pointwise_pairs_fold_only_where_that_is_less_work(channels: tuple[int, int, int], expected: int) -> None:
    before, middle, after = channels
    nodes = [helper.make_node("Conv", ["x", "v", "a"], ["c"]), helper.make_node("Conv", ["c", "w", "b"], ["y"])]
    constants = {"v": weights(middle, before, 1, 1), "a": weights(middle)}
    constants |= {"w": weights(after, middle, 1, 1), "b": weights(after)}
    assert len(kinds(same(model(nodes, constants, (1, before, 4, 6)), fold_linear_pairs))) == expected


@pytest.mark.parametrize("bias", [False, True])
def test_transposed_convolution_as_pointwise(bias: bool) -> None:
    nodes = [helper.make_node("ConvTranspose", ["x", "w", "b"] if bias else ["x", "w"], ["y"], strides=[2, 2])]
    constants = {"w": weights(5, 3, 2, 2), **({"b": weights(3)} if bias else {})}
    assert kinds(same(model(nodes, constants, (1, 5, 4, 6)), unfold_transposed)) == ["Conv", "DepthToSpace"]


def test_overlapping_transposed_convolution_stays() -> None:
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])]
    before = model(nodes, {"w": weights(5, 3, 3, 3)}, (1, 5, 4, 6))
    assert kinds(same(before, unfold_transposed)) == ["ConvTranspose"]


def test_unlike_heads_are_refused() -> None:
    nodes = [helper.make_node("Conv", ["x", "v"], ["a"])]
    nodes.append(helper.make_node("Conv", ["x", "w"], ["b"], pads=[1, 1, 1, 1]))
    before = model(nodes, {"v": weights(2, 3, 1, 1), "w": weights(4, 3, 3, 3)}, (1, 3, 8, 8), ("a", "b"))
    with pytest.raises(UnavailableError, match="not alike"):
        expose_heads(before, [["a"], ["b"]], [1])


def test_an_output_without_convolution_is_refused() -> None:
    before = model([helper.make_node("Relu", ["x"], ["y"])], {}, (1, 3, 8, 8))
    with pytest.raises(UnavailableError, match="comes from Relu"):
        expose_heads(before, [["y"]], [1])


def test_the_mean_is_right_at_the_border() -> None:
    """Padding stands for the mean colour: a picture of just that gives zero everywhere, the border included."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    before = model(nodes, {"w": weights(4, 3, 3, 3)}, (1, 3, 8, 8))
    after = fuse_input(before, "bgr", (104, 117, 123), (1, 1, 1))
    picture = np.full((1, 8, 8, 3), (123, 117, 104), np.uint8)        # red, green, blue
    assert np.abs(run(after, picture)[0]).max() == 0


def test_a_picture_that_is_used_twice_is_refused() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])]
    with pytest.raises(UnavailableError, match="straight into a convolution"):
        fuse_input(model(nodes, {"w": weights(3, 3, 1, 1)}, (1, 3, 8, 8)), "rgb", (0, 0, 0), (1, 1, 1))


def test_a_graph_for_one_size_is_refused() -> None:
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    with pytest.raises(UnavailableError, match="one input size only"):
        free_size(model(nodes, {"s": np.asarray([1, -1], np.int64)}, (1, 3, 8, 8)))


def test_initialisers_leave_the_inputs() -> None:
    before = model([helper.make_node("Conv", ["x", "w"], ["y"])], {"w": weights(2, 3, 1, 1)}, (1, 3, 8, 8))
    before.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (2, 3, 1, 1)))
    assert [value.name for value in raise_opset(before).graph.input] == ["x"]


def wide_model(wide: int) -> onnx.ModelProto:
    """Layers like those of a MobileNet stem: strided, depthwise, pooled, then narrow and used twice."""
    nodes = [
        helper.make_node("Transpose", ["picture"], ["planar"], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", ["planar"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Conv", ["float", "a", "ab"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "w", "wb"], ["e"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=wide),
        helper.make_node("MaxPool", ["e"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["f", "n"], ["g"], kernel_shape=[1, 1]),
        helper.make_node("Relu", ["g"], ["h"]),
        helper.make_node("Add", ["g", "h"], ["y"]),
    ]
    constants = {
        "a": weights(wide, 3, 3, 3) / 255, "ab": weights(wide), "w": weights(wide, 1, 3, 3), "wb": weights(wide),
        "n": weights(4, wide, 1, 1),
    }   # fmt: skip
    result = model(nodes, constants, (1, 3, 8, 8))
    result.graph.input[0].CopyFrom(helper.make_tensor_value_info("picture", TensorProto.UINT8, [1, "h", "w", 3]))
    return result


@pytest.mark.parametrize("height", [32, 64, 96, 160])
def test_strips_give_the_same(height: int) -> None:
    before = wide_model(64)
    after = split_into_strips(before, 32)
    assert kinds(after).count("MaxPool") > 1
    picture = RANDOM.integers(0, 256, (1, height, 32, 3)).astype(np.uint8)
    np.testing.assert_array_equal(run(after, picture)[0], run(before, picture)[0])


def test_narrow_layers_are_left_in_one_piece() -> None:
    before = wide_model(8)
    assert split_into_strips(before, 32).SerializeToString() == before.SerializeToString()
