"""The layers of a network that have weights: what INT8 is decided about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import onnx

from edge.graph.index import GraphIndex, attributes

Kind = Literal["dense", "depthwise", "pointwise", "transposed", "gemm"]


@dataclass(frozen=True, slots=True)
class Layer:
    """A Conv, ConvTranspose, Gemm or MatMul whose weights are constant.

    name: of its output tensor, which is unique. in_channels, out_channels: of the whole layer, also when it is grouped.
    kernel: (height, width); empty for Gemm and MatMul. first: no other layer before it. last: none after it.
    activation, weights: names of its input tensors.
    """

    name: str
    op: str
    kind: Kind
    in_channels: int
    out_channels: int
    kernel: tuple[int, ...]
    first: bool
    last: bool
    activation: str
    weights: str


def layers(model: onnx.ModelProto) -> tuple[Layer, ...]:
    """All layers with weights, in the order of the graph (which is topological)."""
    index = GraphIndex(model.graph)
    nodes = [node for node in model.graph.node if is_layer(index, node)]
    names = {node.output[0] for node in nodes}
    after = _reached(model.graph, names)
    before = {name for name in names if after[name]}                # tensors that come out of some other layer
    followed = {each for name in names for each in after[name]}
    return tuple(_layer(index, node, node.output[0] not in before, node.output[0] not in followed) for node in nodes)


def is_layer(index: GraphIndex, node: onnx.NodeProto) -> bool:
    """Whether the node multiplies something that varies by constant weights."""
    if node.op_type not in ("Conv", "ConvTranspose", "Gemm", "MatMul") or node.input[0] in index.initializers:
        return False
    if node.input[1] not in index.initializers or attributes(node).get("transA", 0):
        return False
    return node.op_type != "MatMul" or len(index.initializers[node.input[1]].dims) == 2


def output_axis(node: onnx.NodeProto) -> int:
    """The axis of the weights that counts output channels (for a grouped ConvTranspose, those of one group)."""
    if node.op_type == "Conv" or (node.op_type == "Gemm" and attributes(node).get("transB", 0)):
        return 0
    return 1


def _reached(graph: onnx.GraphProto, names: set[str]) -> dict[str, set[str]]:
    """For every tensor, the layers among `names` that some path to it goes through, itself not counted."""
    reached: dict[str, set[str]] = {}
    for node in graph.node:
        sources: set[str] = set()
        for name in node.input:
            sources |= reached.get(name, set())
            if name in names:
                sources.add(name)
        for name in node.output:
            reached[name] = sources
    return reached


def _layer(index: GraphIndex, node: onnx.NodeProto, first: bool, last: bool) -> Layer:
    shape = list(index.initializers[node.input[1]].dims)
    axis = output_axis(node)
    group = int(attributes(node).get("group", 1))
    kind: Kind = "dense"
    if node.op_type in ("Gemm", "MatMul"):
        kind = "gemm"
        inner, outer = shape[1 - axis], shape[axis]
    elif node.op_type == "ConvTranspose":
        kind = "transposed"
        inner, outer = shape[0], shape[1] * group
    else:
        inner, outer = shape[1] * group, shape[0]
        if group > 1 and shape[1] == 1:
            kind = "depthwise"
        elif group == 1 and all(side == 1 for side in shape[2:]):
            kind = "pointwise"
    return Layer(
        node.output[0], node.op_type, kind, inner, outer, tuple(shape[2:]), first, last, node.input[0], node.input[1]
    )
