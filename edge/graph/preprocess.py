"""The picture goes in as it lies in memory: uint8, rows of RGB pixels. The graph does the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import onnx
from onnx import helper

from edge.errors import UnavailableError
from edge.graph.index import GraphIndex, add_constant, copy, sweep
from edge.graph.names import INPUT


def fuse_input(
    model: onnx.ModelProto, colour: Literal["rgb", "bgr"], mean: Sequence[float], scale: Sequence[float]
) -> onnx.ModelProto:
    """Replace the float (1, 3, H, W) input by uint8 ``picture`` (1, H, W, 3), red first.

    colour: what the first convolution was trained on; its input channels are swapped for BGR.
    mean, scale: ``(pixel - mean) * scale`` per channel, in `colour` order. The scale goes into the weights. The mean
        does not go into the bias, because the zeros that pad the border stand for the mean, not for black.
    Raises UnavailableError when the input does not go straight, and only, into a convolution.
    """
    model = copy(model)
    graph = model.graph
    index = GraphIndex(graph)
    old = graph.input[0]
    first = index.only_consumer(old.name)
    if first is None or first.op_type != "Conv" or first.input[0] != old.name:
        raise UnavailableError("the picture does not go straight into a convolution", "use another model file")
    height, width = (dim.dim_value for dim in old.type.tensor_type.shape.dim[2:4])
    weights = index.constant(first.input[1]) * np.asarray(scale, np.float32).reshape(1, -1, 1, 1)
    means = np.asarray(mean, np.float32)
    if colour == "bgr":
        weights, means = weights[:, ::-1], means[::-1]
    first.input[1] = add_constant(graph, "picture_weights", weights.astype(np.float32))
    # Transposing bytes is cheaper than transposing floats: 0.2 ms less at 640x384 on one x86 core.
    nodes = [
        helper.make_node("Transpose", [INPUT], ["picture_planar"], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", ["picture_planar"], ["picture_float"], to=onnx.TensorProto.FLOAT),
    ]
    first.input[0] = "picture_float"
    if means.any():
        add_constant(graph, "picture_mean", means.reshape(1, -1, 1, 1))
        nodes.append(helper.make_node("Sub", ["picture_float", "picture_mean"], ["picture_centred"]))
        first.input[0] = "picture_centred"
    for node in reversed(nodes):
        graph.node.insert(0, node)
    graph.input.remove(old)
    graph.input.append(helper.make_tensor_value_info(INPUT, onnx.TensorProto.UINT8, [1, height, width, 3]))
    sweep(graph)
    return model
