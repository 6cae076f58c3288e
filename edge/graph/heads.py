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
from edge.graph.names import map_name, padded_channels

_AFTER_HEAD = {"Sigmoid", "Softmax", "Transpose", "Reshape", "Squeeze", "Flatten", "Identity"}


def expose_heads(model: onnx.ModelProto, heads: Sequence[Sequence[str]], strides: Sequence[int]) -> onnx.ModelProto:
    """Replace the outputs by one map per stride.

    heads: names of the published outputs; per head one for each stride, or a single one in which strides are
    concatenated. Channels are filled up with zeros to a multiple of 16. The input must be float32 (1, 3, H, W) of
    known size. Raises UnavailableError when an output does not lead back to a convolution.
    """
    model = copy(model)
    index = GraphIndex(model.graph)
    sources = [_convolutions(index, names, len(strides)) for names in heads]
    height, width = (dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim[2:4])
    del model.graph.output[:]
    for level, stride in enumerate(strides):
        name = map_name(stride)
        channels = _merge(model.graph, index, [per_stride[level] for per_stride in sources], name)
        shape = (1, channels, height // stride, width // stride)
        model.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
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


def before_activation(index: GraphIndex, name: str) -> str:
    """The tensor that an output is made of, before it is laid out and activated; perhaps the output itself."""
    while (node := index.producers.get(name)) is not None and node.op_type in _AFTER_HEAD:
        name = node.input[0]
    return name


def _walk_back(index: GraphIndex, name: str) -> str:
    name = before_activation(index, name)
    node = index.producers.get(name)
    if node is None or node.op_type not in ("Conv", "Concat"):
        kind = "nothing" if node is None else node.op_type
        raise UnavailableError(f"tensor {name} comes from {kind}, expected a convolution", "use another model file")
    return name


def _merge(graph: onnx.GraphProto, index: GraphIndex, tensors: Sequence[str], name: str) -> int:
    """Make tensor `name` with the channels of all `tensors` from one wider convolution; returns how many it has."""
    nodes = [index.producers[tensor] for tensor in tensors]
    kernels = [index.constant(node.input[1]) for node in nodes]
    biases = [
        index.constant(node.input[2]) if len(node.input) > 2 else np.zeros(len(kernel), np.float32)
        for node, kernel in zip(nodes, kernels, strict=True)
    ]
    alike = all(same_convolution(nodes[0], node) for node in nodes)
    if not alike or len({kernel.shape[1:] for kernel in kernels}) != 1:
        raise UnavailableError(f"the convolutions before {name} are not alike", "use another model file")
    groups = [int(attributes(node).get("group", 1)) for node in nodes]
    sources = [node.input[0] for node in nodes]
    channels = sum(map(len, kernels))
    padding = padded_channels(channels) - channels
    if set(groups) == {1} and len(set(sources)) == 1:
        source, group = sources[0], 1
    elif groups == [len(kernel) for kernel in kernels]:         # depthwise, each after a convolution of its own
        source = f"{name}_in"
        channels = _merge(graph, index, sources, source)
        padding, group = channels - sum(map(len, kernels)), channels
    else:
        raise UnavailableError(f"the convolutions before {name} do not share an input", "use another model file")
    kernels.append(np.zeros((padding, *kernels[0].shape[1:]), np.float32))
    biases.append(np.zeros(padding, np.float32))
    weights = add_constant(graph, f"{name}_weights", np.concatenate(kernels))
    bias = add_constant(graph, f"{name}_bias", np.concatenate(biases))
    values = {**attributes(nodes[0]), "group": group}
    graph.node.append(helper.make_node("Conv", [source, weights, bias], [name], **values))
    return channels + (padding if group == 1 else 0)
