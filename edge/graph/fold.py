"""Convolutions that need less work and give the same: exact but for the rounding of float32."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from edge.graph.index import Array, GraphIndex, add_constant, attributes, copy, sweep


def fold_linear_pairs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Two pointwise convolutions with nothing between them become one, where that is fewer multiplications.

    CenterFace ends its backbone with 960 -> 320 -> 24 channels, which is 960 -> 24: 0.9 of 27 ms.
    """
    model = copy(model)
    graph = model.graph
    index = GraphIndex(graph)
    for second in list(graph.node):
        first = index.producers.get(second.input[0]) if second.input else None
        if first is None or not (_is_pointwise(index, first) and _is_pointwise(index, second)):
            continue
        if index.only_consumer(first.output[0]) is None:
            continue
        inner, inner_bias = _weights(index, first)
        outer, outer_bias = _weights(index, second)
        middle, before = inner.shape
        after = outer.shape[0]
        if before * after > middle * (before + after):
            continue
        weights = outer.astype(np.float64) @ inner
        bias = outer.astype(np.float64) @ inner_bias + outer_bias
        name = second.output[0]
        second.input[0] = first.input[0]
        second.input[1] = add_constant(graph, f"{name}_folded", weights.astype(np.float32)[:, :, None, None])
        bias_name = add_constant(graph, f"{name}_folded_bias", bias.astype(np.float32))
        del second.input[2:]
        second.input.append(bias_name)
        index = GraphIndex(graph)
    sweep(graph)
    return model


def _is_pointwise(index: GraphIndex, node: onnx.NodeProto) -> bool:
    if node.op_type != "Conv" or node.input[1] not in index.initializers:
        return False
    values = attributes(node)
    still = list(values.get("strides", [1, 1])) == [1, 1] and not any(values.get("pads", [0]))
    shape = index.initializers[node.input[1]].dims
    return still and values.get("group", 1) == 1 and list(shape[2:]) == [1, 1]


def _weights(index: GraphIndex, node: onnx.NodeProto) -> tuple[Array, Array]:
    """Weights (out, in) and bias (out,) of a pointwise convolution."""
    weights = index.constant(node.input[1])[:, :, 0, 0]
    bias = index.constant(node.input[2]) if len(node.input) > 2 else np.zeros(len(weights), np.float32)
    return weights, bias


def unfold_transposed(model: onnx.ModelProto) -> onnx.ModelProto:
    """ConvTranspose whose kernel is its stride becomes a pointwise Conv and DepthToSpace.

    No two kernel positions touch the same output pixel, so each is a pointwise convolution of its own. INT8 and
    TensorRT handle this form better.
    """
    model = copy(model)
    graph = model.graph
    index = GraphIndex(graph)
    for node in [node for node in graph.node if node.op_type == "ConvTranspose"]:
        values = attributes(node)
        weights = index.constant(node.input[1])                 # (in, out, k, k)
        strides = list(values.get("strides", [1, 1]))
        apart = strides == list(weights.shape[2:]) and strides[0] == strides[1] > 1
        padded = any(values.get("pads", [0])) or any(values.get("output_padding", [0]))
        if not apart or padded or values.get("group", 1) != 1:
            continue
        step, name = strides[0], node.output[0]
        # DepthToSpace in CRD order reads channel c * k * k + row * k + column.
        pointwise = weights.transpose(1, 2, 3, 0).reshape(-1, weights.shape[0])[:, :, None, None]
        inputs = [node.input[0], add_constant(graph, f"{name}_pointwise", pointwise)]
        if len(node.input) > 2:
            bias = index.constant(node.input[2]).repeat(step * step)
            inputs.append(add_constant(graph, f"{name}_pointwise_bias", bias))
        place = list(graph.node).index(node)
        deep = f"{name}_deep"
        graph.node.remove(node)
        graph.node.insert(place, helper.make_node("DepthToSpace", [deep], [name], blocksize=step, mode="CRD"))
        graph.node.insert(place, helper.make_node("Conv", inputs, [deep], kernel_shape=[1, 1]))
    sweep(graph)
    return model
