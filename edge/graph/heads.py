"""One feature map per stride instead of many small outputs.

A published detector ends, per stride, in several small convolutions, each followed by a transposition, a reshape and an
activation over all cells, although a face is in very few of them. Here the graph ends at the convolutions, merged into
one per stride: output ``stride_8`` is float32 (1, C, height / 8, width / 8), with the heads' channels one after the
other, before their activation. The readers threshold first and decode only what survives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from edge.errors import UnavailableError
from edge.graph.index import GraphIndex, add_constant, attributes, copy, same_convolution, sweep
from edge.graph.names import map_name

_AFTER_HEAD = {"Sigmoid", "Softmax", "Transpose", "Reshape", "Squeeze", "Flatten", "Identity"}


def expose_heads(
    model: onnx.ModelProto, heads: Sequence[Sequence[str]], strides: Sequence[int], shapes: Sequence[tuple[int, ...]]
) -> onnx.ModelProto:
    """Replace the outputs by one map per stride.

    heads: names of the published outputs; per head one for each stride, or a single one in which strides are concatenated.
    shapes: (1, C, H, W) of each map, for the new outputs.
    Raises UnavailableError when an output does not lead back to a convolution.
    """
    model = copy(model)
    index = GraphIndex(model.graph)
    sources = [_convolutions(index, names, len(strides)) for names in heads]
    del model.graph.output[:]
    for level, (stride, shape) in enumerate(zip(strides, shapes, strict=True)):
        tensors = [per_stride[level] for per_stride in sources]
        merged = _merge(model.graph, index, tensors, f"heads_{stride}")
        model.graph.node.append(helper.make_node("Identity", [merged], [map_name(stride)]))
        model.graph.output.append(helper.make_tensor_value_info(map_name(stride), onnx.TensorProto.FLOAT, shape))
    _drop_identities(model.graph)
    sweep(model.graph)
    return model


def _convolutions(index: GraphIndex, names: Sequence[str], strides: int) -> list[str]:
    """Tensors that the head's convolutions make, one per stride."""
    if len(names) == strides:
        return [_walk_back(index, name) for name in names]
    joined = _walk_back(index, names[0])
    node = index.producers[joined]
    if node.op_type != "Concat" or len(node.input) != strides:
        raise UnavailableError(f"output {names[0]} is not made of {strides} feature maps", "use another model file")
    return [_walk_back(index, name) for name in node.input]


def _walk_back(index: GraphIndex, name: str) -> str:
    node = index.producers.get(name)
    while node is not None and node.op_type in _AFTER_HEAD:
        name = node.input[0]
        node = index.producers.get(name)
    if node is None or node.op_type not in ("Conv", "Concat"):
        kind = "nothing" if node is None else node.op_type
        raise UnavailableError(f"tensor {name} comes from {kind}, expected a convolution", "use another model file")
    return name


def _merge(graph: onnx.GraphProto, index: GraphIndex, tensors: Sequence[str], name: str) -> str:
    """One tensor with the channels of all: a wider convolution where they are alike, else Concat."""
    nodes = [index.producers[tensor] for tensor in tensors]
    alike = all(node.op_type == "Conv" and same_convolution(nodes[0], node) for node in nodes)
    kernels = [index.constant(node.input[1]) for node in nodes] if alike else []
    if alike and len({kernel.shape[2:] for kernel in kernels}) == 1:
        inputs = [node.input[0] for node in nodes]
        groups = [int(attributes(node).get("group", 1)) for node in nodes]
        depthwise = all(len(kernel) == group and kernel.shape[1] == 1 for kernel, group in zip(kernels, groups, strict=True))
        if len(set(inputs)) == 1 and set(groups) == {1}:
            return _wide(graph, index, nodes, inputs[0], 1, name)
        if depthwise and all(tensor in index.producers for tensor in inputs):
            before = _merge(graph, index, inputs, f"{name}_in")
            return _wide(graph, index, nodes, before, sum(groups), name)
    graph.node.append(helper.make_node("Concat", list(tensors), [name], axis=1))
    return name


def _wide(
    graph: onnx.GraphProto, index: GraphIndex, nodes: Sequence[onnx.NodeProto], source: str, group: int, name: str
) -> str:
    kernels = [index.constant(node.input[1]) for node in nodes]
    biases = [
        index.constant(node.input[2]) if len(node.input) > 2 else np.zeros(len(kernel), np.float32)
        for node, kernel in zip(nodes, kernels, strict=True)
    ]
    weights = add_constant(graph, f"{name}_weights", np.concatenate(kernels))
    bias = add_constant(graph, f"{name}_bias", np.concatenate(biases))
    values = {**attributes(nodes[0]), "group": group}
    graph.node.append(helper.make_node("Conv", [source, weights, bias], [name], **values))
    return name


def _drop_identities(graph: onnx.GraphProto) -> None:
    """Let the producer of an output write it under its final name."""
    producers = GraphIndex(graph).producers
    for identity in [node for node in graph.node if node.op_type == "Identity"]:
        producers[identity.input[0]].output[0] = identity.output[0]
        graph.node.remove(identity)
