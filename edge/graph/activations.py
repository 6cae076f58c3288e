"""Activations under their own names: runtimes fuse Relu and Clip into the convolution before them, Max and Min not."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from edge.graph.index import GraphIndex, add_constant, copy, sweep


def name_activations(model: onnx.ModelProto) -> onnx.ModelProto:
    """``Max(x, 0)`` becomes Relu; ``Min(Max(x, a), b)`` becomes Clip, whose bounds are constants of one value."""
    model = copy(model)
    graph = model.graph
    for node in list(graph.node):
        index = GraphIndex(graph)
        low = _bounded(index, node, "Max")
        if low is None:
            continue
        tensor, least = low
        above = index.only_consumer(node.output[0])
        high = None if above is None else _bounded(index, above, "Min")
        if above is not None and high is not None:
            name = above.output[0]
            bounds = [
                add_constant(graph, f"{name}_{end}", np.asarray(value, np.float32))
                for end, value in (("least", least), ("largest", high[1]))
            ]
            above.CopyFrom(helper.make_node("Clip", [tensor, *bounds], [name], above.name))
        elif least == 0:
            node.CopyFrom(helper.make_node("Relu", [tensor], [node.output[0]], node.name))
    sweep(graph)
    return model


def _bounded(index: GraphIndex, node: onnx.NodeProto, kind: str) -> tuple[str, float] | None:
    """The tensor and the constant that a Max or Min compares."""
    if node.op_type != kind or len(node.input) != 2:
        return None
    for tensor, bound in (tuple(node.input), tuple(reversed(node.input))):
        if bound in index.initializers and tensor not in index.initializers:
            value = index.constant(bound)
            if value.size == 1 and value.dtype == np.float32 and value.ndim <= 1:
                return tensor, float(value.reshape(()))
    return None
