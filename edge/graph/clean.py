"""A graph without shape arithmetic, batch norm or anything else that is the same in every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from edge.errors import UnavailableError
from edge.graph.activations import name_activations
from edge.graph.index import GraphIndex, add_constant, attributes, copy, sweep
from edge.graph.names import INPUT
from edge.telemetry import refuse_telemetry

OPSET = 13          # what Q/DQ per channel needs, and every TensorRT from 8.6 on reads
_NOMINAL_PX = (448, 576)        # height and width to fold shapes with; any multiples of 64 that differ
# Whatever is left of these holds a number that was right for one size only.
_SIZE_DEPENDENT = {"Reshape", "Slice", "Expand", "Tile", "Shape", "ConstantOfShape", "Flatten", "Gather", "Range"}


def simplify(model: onnx.ModelProto) -> onnx.ModelProto:
    """Fold constants and batch norm, drop what is unused, raise the opset. The input becomes (1, 3, 448, 576).

    Initialisers leave the inputs (ONNX Runtime treats them as variable otherwise, and folds nothing that uses them).
    Raises UnavailableError if there is not exactly one input. See `free_size` for other sizes.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    variables = [value for value in model.graph.input if value.name not in constants]
    if len(variables) != 1:
        raise UnavailableError(f"the graph has {len(variables)} inputs, expected one picture", "use another model file")
    return simplify_network(model, {variables[0].name: (1, 3, *_NOMINAL_PX)})


def simplify_network(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """The same for any network. shapes: what each of its inputs becomes, by name."""
    refuse_telemetry()      # onnxslim folds constants with ONNX Runtime
    import onnxslim

    fixed = [f"{name}:{','.join(map(str, shape))}" for name, shape in shapes.items()]
    slim = onnxslim.slim(copy(model), input_shapes=fixed)
    return name_activations(fold_batch_norm(raise_opset(slim)))


def raise_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model in opset 13, or what it has if that is newer, without initialisers among its inputs."""
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    model = onnx.version_converter.convert_version(model, OPSET) if opset < OPSET else copy(model)
    model.ir_version = max(model.ir_version, 7)
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in [value for value in model.graph.input if value.name in constants]:
        model.graph.input.remove(value)
    return model


def fold_batch_norm(model: onnx.ModelProto) -> onnx.ModelProto:
    """Batch normalisation after Conv, ConvTranspose or Gemm becomes part of its weights and bias.

    y = gamma * (x - mean) / sqrt(var + epsilon) + beta: Ioffe and Szegedy 2015, algorithm 2.
    """
    model = copy(model)
    index = GraphIndex(model.graph)
    for norm in [node for node in model.graph.node if node.op_type == "BatchNormalization"]:
        conv = index.producers.get(norm.input[0])
        if conv is None or conv.op_type not in ("Conv", "ConvTranspose", "Gemm"):
            continue
        if index.only_consumer(conv.output[0]) is None or conv.input[1] not in index.initializers:
            continue
        if conv.op_type == "Gemm" and not {1.0} >= {attributes(conv).get(factor, 1.0) for factor in ("alpha", "beta")}:
            continue
        gamma, beta, mean, variance = (index.constant(name) for name in norm.input[1:5])
        gain = gamma / np.sqrt(variance + attributes(norm).get("epsilon", 1e-5))
        weights = index.constant(conv.input[1])
        bias = index.constant(conv.input[2]) if len(conv.input) > 2 else np.zeros_like(gain)
        if conv.op_type == "Conv":                                                          # (out, in / group, kh, kw)
            weights = weights * gain[:, None, None, None]
        elif conv.op_type == "Gemm":                                                        # (in, out), or transposed
            weights = weights * (gain[:, None] if attributes(conv).get("transB", 0) else gain)
        else:                                                                               # (in, out / group, kh, kw)
            group = int(attributes(conv).get("group", 1))
            per_input = gain.reshape(group, -1).repeat(len(weights) // group, axis=0)
            weights = weights * per_input[:, :, None, None]
        name = norm.output[0]
        source = conv.input[0]
        weights_name = add_constant(model.graph, f"{name}_weights", weights.astype(np.float32))
        bias_name = add_constant(model.graph, f"{name}_bias", ((bias - mean) * gain + beta).astype(np.float32))
        del conv.input[:]
        conv.input.extend([source, weights_name, bias_name])
        conv.output[0] = name
        model.graph.node.remove(norm)
    sweep(model.graph)
    return model


def free_size(model: onnx.ModelProto) -> onnx.ModelProto:
    """Height and width of the input become free; enlargements keep their factor instead of their size.

    Raises UnavailableError when something else in the graph depends on the size.
    """
    model = onnx.shape_inference.infer_shapes(copy(model))
    graph = model.graph
    bound = sorted({node.op_type for node in graph.node} & _SIZE_DEPENDENT)
    if bound:
        left = ", ".join(bound)
        raise UnavailableError(f"the graph works for one input size only ({left} in it)", "use another model file")
    shapes = {value.name: _dims(value) for value in (*graph.value_info, *graph.input, *graph.output)}
    for node in [node for node in graph.node if node.op_type == "Resize"]:
        before, after = shapes[node.input[0]], shapes[node.output[0]]
        factors = np.asarray([large / small for large, small in zip(after, before, strict=True)], np.float32)
        source = node.input[0]
        del node.input[:]
        node.input.extend([source, "", add_constant(graph, f"{node.output[0]}_factors", factors)])
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        for axis, side in zip((1, 2) if value.name == INPUT else (2, 3), ("height", "width"), strict=True):
            value.type.tensor_type.shape.dim[axis].dim_param = f"{value.name}_{side}"
    sweep(graph)
    return model


def _dims(value: onnx.ValueInfoProto) -> list[int]:
    return [dim.dim_value for dim in value.type.tensor_type.shape.dim]
