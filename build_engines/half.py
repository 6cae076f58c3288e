"""FP16 written into the graph, for the TensorRT versions where the graph alone says what runs in which type.

From 10.13 on (and TensorRT-RTX) networks are strongly typed: there is no FP16 flag. Inputs and outputs keep their
types, so that one runtime serves both. Q/DQ nodes take FP16 from opset 19 on, which those versions all read; the
graph for TensorRT 8.6 stays in opset 13.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from edge.graph.index import Array, GraphIndex, add_constant, copy, sweep

OPSET = 19          # from which on QuantizeLinear and DequantizeLinear take FP16
LARGEST = float(np.finfo(np.float16).max)
SMALLEST = float(np.finfo(np.float16).smallest_subnormal)
# Sums over a whole feature map and what follows them until the result is a factor again: squares of 256 overflow, and
# the 1e-8 that keeps a variance from 0 is 0 in FP16.
_SENSITIVE = {"ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL2", "Pow", "Sqrt", "Exp", "Log", "Reciprocal"}
_ELEMENTWISE = {"Add", "Sub", "Mul", "Div"}
_STAYS_FLOAT = {"Resize": (1, 2)}       # inputs that are numbers about the operation


def to_half(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network in FP16 but for its inputs and outputs.

    Q/DQ nodes stay where they are, with FP16 scales. Statistics over feature maps stay float32. Constants beyond the
    range of FP16 are cut to it: see `out_of_range`.
    """
    model = _prepared(model)
    graph = model.graph
    real = _float_tensors(model)
    floats = _float_nodes(graph)
    cast: dict[tuple[str, int], str] = {}
    nodes: list[onnx.NodeProto] = []
    types: dict[str, int] = {value.name: TensorProto.FLOAT for value in graph.input}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    rounded: dict[str, str] = {}
    scales = {node.input[1] for node in graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")}
    index = GraphIndex(graph)

    def wanted(name: str, kind: int) -> str:
        """The tensor `name` in type `kind`."""
        if name in constants:
            if kind == TensorProto.FLOAT:
                return name
            if name not in rounded:
                value = index.constant(name)
                half = half_scales(value) if name in scales else half_constant(value)
                rounded[name] = add_constant(graph, f"{name}/half", half)
            return rounded[name]
        if types[name] == kind:
            return name
        if (name, kind) not in cast:
            suffix = "half" if kind == TensorProto.FLOAT16 else "float"
            cast[name, kind] = f"{name}/{suffix}"
            nodes.append(helper.make_node("Cast", [name], [cast[name, kind]], to=kind))
        return cast[name, kind]

    for node in graph.node:
        kind = TensorProto.FLOAT if node.output[0] in floats else TensorProto.FLOAT16
        kept = _STAYS_FLOAT.get(node.op_type, ())
        for place, name in enumerate(node.input):
            if name in real:
                node.input[place] = wanted(name, TensorProto.FLOAT if place in kept else kind)
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = kind
        if node.op_type == "Constant" and node.output[0] in real:
            kind = TensorProto.FLOAT
        types.update((name, kind) for name in node.output if name in real)
        nodes.append(node)
    _restore_outputs(graph, nodes, types, real)
    kept_nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept_nodes)
    del graph.value_info[:]
    sweep(graph)
    return model


def out_of_range(model: onnx.ModelProto) -> tuple[str, ...]:
    """Names of constants with numbers that FP16 does not have; `to_half` takes the largest one instead."""
    return tuple(
        tensor.name
        for tensor in model.graph.initializer
        if tensor.data_type == TensorProto.FLOAT and bool((np.abs(onnx.numpy_helper.to_array(tensor)) > LARGEST).any())
    )


def half_constant(value: Array) -> Array:
    """Nearest FP16, cut to the largest there is; what would become 0 takes the smallest there is."""
    half = np.clip(value, -LARGEST, LARGEST).astype(np.float16)
    vanished = (half == 0) & (np.abs(value) >= SMALLEST / 4)
    return np.where(vanished, np.copysign(SMALLEST, value), half).astype(np.float16)


def half_scales(value: Array) -> Array:
    """Scales in FP16, never so much smaller that the range they stand for is noticeably cut."""
    half = np.clip(value, SMALLEST, LARGEST).astype(np.float16)
    short = half.astype(np.float64) < value * (1 - 2.0**-10)
    return np.where(short, np.nextafter(half, np.float16(np.inf)), half).astype(np.float16)


def _prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    quantised = any(node.op_type == "QuantizeLinear" for node in model.graph.node)
    if quantised and opset < OPSET:
        model = onnx.version_converter.convert_version(model, OPSET)
        model.ir_version = max(model.ir_version, 9)
        return model
    return copy(model)


def _float_tensors(model: onnx.ModelProto) -> set[str]:
    """Names of all float32 tensors."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    names = {value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT}
    return names | {tensor.name for tensor in graph.initializer if tensor.data_type == TensorProto.FLOAT}


def _float_nodes(graph: onnx.GraphProto) -> set[str]:
    """First outputs of the nodes that stay float32."""
    floats = {node.output[0] for node in graph.node if node.op_type in _SENSITIVE}
    readers: dict[str, list[str]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node.output[0])
    outputs = {value.name for value in graph.output}
    for node in reversed(graph.node):
        users = readers[node.output[0]]
        if node.op_type in _ELEMENTWISE and users and node.output[0] not in outputs and floats.issuperset(users):
            floats.add(node.output[0])
    for node in graph.node:         # 1 / sqrt(x): the result is a factor again
        if node.op_type == "Div" and node.input[1] in floats and _few_values(graph, node.input[0]):
            floats.add(node.output[0])
    return floats


def _few_values(graph: onnx.GraphProto, name: str) -> bool:
    return any(tensor.name == name and int(np.prod(tensor.dims)) == 1 for tensor in graph.initializer)


def _restore_outputs(
    graph: onnx.GraphProto, nodes: list[onnx.NodeProto], types: Mapping[str, int], real: set[str]
) -> None:
    """Outputs are float32 again, under their own names."""
    for value in graph.output:
        name = value.name
        if name not in real or types.get(name) != TensorProto.FLOAT16:
            continue
        inner = f"{name}/half"
        for node in nodes:
            for names in (node.input, node.output):
                for place, each in enumerate(names):
                    if each == name:
                        names[place] = inner
        nodes.append(helper.make_node("Cast", [inner], [name], to=TensorProto.FLOAT))
