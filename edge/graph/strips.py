"""The widest layers, a few rows of the picture at a time: same numbers, a fraction of the memory.

Early layers of a detector work on few channels of many pixels, and some widen them first: CenterFace has 96 channels
at half the resolution, 86 MB at 1280x704 for each frame that is in work, 70 % of its peak. Here the layers from the
picture to the first narrow tensor after them run once per strip. A strip reads as many rows beyond its own as the
layers reach, and only strips at the border are padded, so results are the same. Time does not change measurably: what
the extra rows cost, caches win back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from edge.graph.index import GraphIndex, add_constant, attributes, copy, sweep
from edge.graph.names import INPUT

_WIDE = 12.0            # numbers per pixel of the picture from which on a tensor is worth the trouble
_NARROW = 3.0           # and up to which it may be put together again
_ROWWISE = {"Relu", "LeakyRelu", "Clip", "Cast", "Transpose", "Sub", "Mul"}
_STRIPS = (8, 4, 2)


@dataclass(slots=True)
class _Layer:
    """A node of the chain and the rows its input needs beyond those of its output, at the input's resolution.

    above, below: for rows that a strip owns. stride: picture rows per row of the output.
    """

    node: onnx.NodeProto
    channels: int
    stride: int
    above: int = 0
    below: int = 0
    values: dict[str, Any] = field(default_factory=dict)


def split_into_strips(model: onnx.ModelProto, stride_multiple: int) -> onnx.ModelProto:
    """Run the layers before the first branch in strips, if one of them is wide. Otherwise the model as it is.

    model: with a uint8 (1, H, W, 3) input called ``picture``, of any height that is a multiple of `stride_multiple`.
    """
    model = copy(model)
    chain = _narrowing_chain(GraphIndex(model.graph))
    if not chain:
        return model
    _reach(chain)
    # Strips hold whole rows of the last layer, and each is higher than what its neighbours read of it.
    highest = max(max(layer.above, layer.below) * _stride_before(chain, place) for place, layer in enumerate(chain))
    for count in _STRIPS:
        height = stride_multiple // count
        if stride_multiple % (count * chain[-1].stride) == 0 and highest <= height:
            return _rewrite(model, chain, count)
    return model


def _narrowing_chain(index: GraphIndex) -> list[_Layer]:
    """Layers from the picture to the last narrow tensor before the first branch; empty if none on the way is wide."""
    chain: list[_Layer] = []
    name, channels, stride, kept, wide = INPUT, 3, 1, 0, False
    while (node := index.only_consumer(name)) is not None:
        values = attributes(node)
        if node.op_type in ("Conv", "MaxPool"):
            if node.op_type == "Conv":
                channels = index.initializers[node.input[1]].dims[0]
            if values.get("auto_pad", b"NOTSET") != b"NOTSET" or max(values.get("dilations", [1])) > 1:
                break
            stride *= int(values.get("strides", [1, 1])[0])
        elif node.op_type not in _ROWWISE:
            break
        chain.append(_Layer(node, channels, stride, values=values))
        name = node.output[0]
        size = channels / stride**2
        wide = wide or size >= _WIDE
        if wide and size <= _NARROW and node.op_type == "Conv":
            kept = len(chain)
    return chain[:kept]


def _stride_before(chain: Sequence[_Layer], place: int) -> int:
    return chain[place - 1].stride if place else 1


def _reach(chain: Sequence[_Layer]) -> None:
    """Fill in `above` and `below`, from the last layer back to the first."""
    above = below = 0
    for layer in reversed(chain):
        if layer.node.op_type in ("Conv", "MaxPool"):
            step = int(layer.values.get("strides", [1, 1])[0])
            padding = int(layer.values.get("pads", [0] * 4)[0])
            kernel = int(layer.values["kernel_shape"][0])
            above = above * step + padding
            below = below * step + kernel - padding - step
        layer.above, layer.below = above, below


def _rewrite(model: onnx.ModelProto, chain: Sequence[_Layer], count: int) -> onnx.ModelProto:
    graph = model.graph
    starts = [-chain[0].above if place else 0 for place in range(count)]
    ends = [chain[0].below if place < count - 1 else 0 for place in range(count)]
    nodes = [
        helper.make_node("Shape", [INPUT], ["strip_shape"]),
        helper.make_node("Gather", ["strip_shape", _int64(graph, "strip_row_axis", [1])], ["strip_rows"]),
        *_bounds(graph, "start", range(count), starts),
        *_bounds(graph, "end", range(1, count + 1), ends),
    ]
    parts = []
    for place in range(count):
        source = f"strip_{place}"
        bounds = [f"strip_start_{place}", f"strip_end_{place}", "strip_row_axis"]
        nodes.append(helper.make_node("Slice", [INPUT, *bounds], [source]))
        for layer in chain:
            target = f"strip_{place}_{layer.node.output[0]}"
            values = dict(layer.values)
            if "pads" in values:
                top, left, bottom, right = values["pads"]
                values["pads"] = [0 if place else top, left, bottom if place == count - 1 else 0, right]
            inputs = [source, *layer.node.input[1:]]
            nodes.append(helper.make_node(layer.node.op_type, inputs, [target], **values))
            source = target
        parts.append(source)
    nodes.append(helper.make_node("Concat", parts, [chain[-1].node.output[0]], axis=2))
    for layer in chain:
        graph.node.remove(layer.node)
    rest = [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    del graph.node[:]
    graph.node.extend([*nodes, *rest])
    sweep(graph)
    return model


def _bounds(graph: onnx.GraphProto, what: str, places: Sequence[int], offsets: Sequence[int]) -> list[onnx.NodeProto]:
    """Nodes that make ``strip_{what}_{n}`` = rows * place / count + offset for every strip."""
    name, count = f"strip_{what}", len(places)
    return [
        helper.make_node("Mul", ["strip_rows", _int64(graph, f"{name}_places", places)], [f"{name}_scaled"]),
        helper.make_node("Div", [f"{name}_scaled", _int64(graph, f"{name}_count", [count])], [f"{name}_own"]),
        helper.make_node("Add", [f"{name}_own", _int64(graph, f"{name}_offsets", offsets)], [f"{name}_all"]),
        helper.make_node("Split", [f"{name}_all"], [f"{name}_{place}" for place in range(count)], axis=0),
    ]


def _int64(graph: onnx.GraphProto, name: str, values: Sequence[int]) -> str:
    return add_constant(graph, name, np.asarray(list(values), np.int64))
