"""Looking things up in an ONNX graph: who makes a tensor, who uses it, what a constant holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

Array = npt.NDArray[Any]


class GraphIndex:
    """A snapshot; make a new one after the graph has been changed."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.outputs = {value.name for value in graph.output}
        self.producers: dict[str, onnx.NodeProto] = {}
        self.consumers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in node.output:
                self.producers[name] = node
            for name in node.input:
                self.consumers[name].append(node)

    def constant(self, name: str) -> Array:
        """Value of an initialiser. Raises KeyError when `name` is not one."""
        return numpy_helper.to_array(self.initializers[name])

    def only_consumer(self, name: str) -> onnx.NodeProto | None:
        """The one node that reads `name`; None if there are more, or none, or if it is also a graph output."""
        users = self.consumers.get(name, [])
        return users[0] if len(users) == 1 and name not in self.outputs else None


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Attributes of a node as Python values."""
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def ints(node: onnx.NodeProto, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """An attribute that is a list of integers."""
    return tuple(int(value) for value in attributes(node).get(name, default))


def same_convolution(first: onnx.NodeProto, second: onnx.NodeProto) -> bool:
    """Whether two Conv nodes slide alike: kernel, strides, padding, dilation (groups may differ)."""
    left, right = attributes(first), attributes(second)
    keys = (set(left) | set(right)) - {"group", "kernel_shape"}
    return all(left.get(key) == right.get(key) for key in keys)


def add_constant(graph: onnx.GraphProto, name: str, value: Array) -> str:
    """Add an initialiser; returns its name."""
    graph.initializer.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
    return name


def copy(model: onnx.ModelProto) -> onnx.ModelProto:
    """A deep copy, so that a pass leaves its argument alone."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    return result


def sweep(graph: onnx.GraphProto) -> None:
    """Drop nodes whose results nobody uses and initialisers that nobody reads; sort nodes topologically."""
    index = GraphIndex(graph)
    kept: list[onnx.NodeProto] = []
    done: set[str] = set()

    def visit(root: str) -> None:
        stack = [(root, False)]
        while stack:
            name, ready = stack.pop()
            node = index.producers.get(name)
            if node is None or node.output[0] in done:
                continue
            if ready:
                done.update(node.output)
                kept.append(node)
            else:
                stack.append((name, True))
                stack.extend((each, False) for each in reversed(node.input))

    for value in graph.output:
        visit(value.name)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del graph.node[:]
    graph.node.extend(nodes)
    read = {name for node in nodes for name in node.input}
    tensors = [tensor for tensor in graph.initializer if tensor.name in read]
    kept_tensors = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in tensors]
    del graph.initializer[:]
    graph.initializer.extend(kept_tensors)
    shapes = [info for info in graph.value_info if info.name in done]
    kept_shapes = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in shapes]
    del graph.value_info[:]
    graph.value_info.extend(kept_shapes)
