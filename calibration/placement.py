"""Where a graph is quantised: which tensors, for which of their readers, and which of them share a scale.

After NVIDIA's rules for explicit quantisation (TensorRT developer guide, "Explicit Quantization", Q/DQ layer-placement
recommendations): all inputs of layers with weights; the skip branch of a residual addition, but not the branch that
comes out of a convolution, so that the two fuse; nothing at the outputs of layers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import onnx

from edge.graph.index import GraphIndex, attributes
from edge.graph.layers import layers

# What they give are values that they were given: quantising before or after is the same, and TensorRT moves Q and DQ
# through them.
_MOVES_ONLY = {
    "MaxPool", "Resize", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "DepthToSpace", "SpaceToDepth",
    "Identity", "Slice", "Split", "Concat", "Pad",
}   # fmt: skip
# Those whose inputs are always quantised too. A scale of its own at every input of Concat is what makes TensorRT copy,
# and one float input makes it a float operation.
GO_IN_QUANTISED = {"Concat"}
_ACTIVATIONS = {"Relu", "LeakyRelu", "PRelu", "Clip"}

Edge = tuple[str, int]      # first output of the node that reads a tensor, and which of its inputs that is


@dataclass(slots=True)
class Placement:
    """readers: for each tensor that is quantised, in topological order, who reads it in INT8.

    ranged: those of them whose range must be known; the others hold the same values as one of these. group: for each
    tensor, the one that stands for all that share its scale.
    """

    readers: dict[str, list[Edge]] = field(default_factory=dict)
    ranged: tuple[str, ...] = ()
    group: dict[str, str] = field(default_factory=dict)

    def add(self, tensor: str, edge: Edge) -> None:
        """`edge` reads `tensor` in INT8."""
        edges = self.readers.setdefault(tensor, [])
        if edge not in edges:
            edges.append(edge)


def quantisable(model: onnx.ModelProto) -> frozenset[str]:
    """Names of the layers that may run in INT8: all that TensorRT 8.6 can build.

    It fails on transposed convolutions. With a free batch it also failed on enlargements before a quantised layer
    ("Could not find any implementation for node", a linear one in the generator and one to the nearest pixel in SCRFD):
    it moves Q in front of them, and has no INT8 kernel for them.
    """
    index = GraphIndex(model.graph)
    return frozenset(
        layer.name
        for layer in layers(model)
        if layer.kind != "transposed" and not _is_resized(index, layer.activation)
    )


def _is_resized(index: GraphIndex, tensor: str) -> bool:
    """Whether it comes out of a Resize, directly or through nodes that TensorRT moves Q past."""
    node = index.producers.get(tensor)
    if node is None:
        return False
    return node.op_type == "Resize" or (
        node.op_type in _MOVES_ONLY and any(_is_resized(index, name) for _, name in _moved(node))
    )


def place(model: onnx.ModelProto, int8: Collection[str]) -> Placement:
    """Decide for the layers named in `int8`. Raises ValueError for a name that is no quantisable layer."""
    unknown = set(int8) - quantisable(model)
    if unknown:
        raise ValueError(f"no layers that can be quantised: {', '.join(sorted(unknown))}")
    index = GraphIndex(model.graph)
    placement = Placement()
    for layer in layers(model):
        if layer.name in int8:
            placement.add(layer.activation, (layer.name, 0))
    _add_skips(model.graph, index, frozenset(int8), placement)
    placement.ranged = tuple(placement.readers)
    _share(index, placement)
    order = _positions(model.graph)
    placement.readers = dict(sorted(placement.readers.items(), key=lambda item: order[item[0]]))
    placement.ranged = tuple(sorted(placement.ranged, key=order.__getitem__))
    return placement


def possible_tensors(model: onnx.ModelProto) -> tuple[str, ...]:
    """Every tensor whose range some choice of layers needs, in topological order."""
    index = GraphIndex(model.graph)
    names = quantisable(model)
    found = {layer.activation for layer in layers(model) if layer.name in names}
    for node in model.graph.node:
        if node.op_type == "Add":
            found |= {skip for skip in node.input if not _is_resized(index, skip)
                      and any(_fuses(index, names, other) for other in node.input if other != skip)}
    found = {name for name in found if name not in index.initializers}
    return tuple(sorted(found, key=_positions(model.graph).__getitem__))


def _positions(graph: onnx.GraphProto) -> dict[str, int]:
    names = [value.name for value in graph.input] + [name for node in graph.node for name in node.output]
    return {name: place for place, name in enumerate(names)}


def _add_skips(graph: onnx.GraphProto, index: GraphIndex, int8: frozenset[str], placement: Placement) -> None:
    """Skip branches of additions that fuse with an INT8 convolution and whose sum is quantised too.

    TensorRT gives the fused layer the type of the skip branch, so one without the other would cost a conversion.
    """
    order = _positions(graph)
    for node in reversed(graph.node):       # a sum may be the next one's skip
        if node.op_type != "Add":
            continue
        # Of two convolutions the later one fuses: by then the other's result is there.
        fusing = [name for name in node.input if _fuses(index, int8, name)]
        if not fusing or len(set(node.input)) < 2 or not _becomes_int8(index, placement, node.output[0]):
            continue
        last = max(fusing, key=order.__getitem__)
        skip = next(place for place, name in enumerate(node.input) if name != last)
        if node.input[skip] not in index.initializers and not _is_resized(index, node.input[skip]):
            placement.add(node.input[skip], (node.output[0], skip))


def _fuses(index: GraphIndex, int8: frozenset[str], tensor: str) -> bool:
    node = index.producers.get(tensor)
    return node is not None and node.op_type == "Conv" and tensor in int8 and index.only_consumer(tensor) is not None


def _becomes_int8(index: GraphIndex, placement: Placement, tensor: str) -> bool:
    if tensor in placement.readers:
        return True
    users = [node for node in index.consumers.get(tensor, []) if node.op_type in _ACTIVATIONS or _moves_only(node)]
    return any(_becomes_int8(index, placement, node.output[0]) for node in users)


def _moves_only(node: onnx.NodeProto) -> bool:
    if node.op_type == "Resize":
        return bool(attributes(node).get("mode", b"nearest") == b"nearest")
    if node.op_type == "Pad":
        # A constant that is not zero may be out of range.
        return len(node.input) < 3 or attributes(node).get("mode", b"constant") != b"constant"
    return node.op_type in _MOVES_ONLY


def _moved(node: onnx.NodeProto) -> Iterator[tuple[int, str]]:
    """The inputs whose values the node passes on."""
    yield from enumerate(node.input if node.op_type == "Concat" else node.input[:1])


def _share(index: GraphIndex, placement: Placement) -> None:
    """Put tensors of the same values into one group, and let nodes between two of them work on INT8."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := parents.setdefault(name, name)) != name:
            name = above
        return name

    for tensor in list(placement.readers):
        stack, seen = [tensor], {tensor}
        while stack:
            name = stack.pop()
            node = index.producers.get(name)
            if node is None or not _moves_only(node):
                continue
            for number, source in _moved(node):
                if source in index.initializers:
                    continue
                parents[root(source)] = root(tensor)
                if source in placement.readers or node.op_type in GO_IN_QUANTISED:
                    placement.add(source, (node.output[0], number))
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
    placement.group = {name: root(name) for name in placement.readers}
