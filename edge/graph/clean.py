"""A graph for one input size: no shape arithmetic, no batch norm, nothing that is computed twice."""

from __future__ import annotations

import numpy as np
import onnx

from edge.errors import UnavailableError
from edge.graph.index import GraphIndex, add_constant, attributes, copy, sweep

OPSET = 13          # what Q/DQ per channel needs, and every TensorRT from 8.6 on reads


def simplify(model: onnx.ModelProto, height_px: int, width_px: int) -> onnx.ModelProto:
    """Fix the input to (1, 3, height, width) and fold everything that is then constant.

    Initialisers leave the inputs (ONNX Runtime treats them as variable otherwise, and folds nothing that uses them).
    Raises UnavailableError if the result does not pass the ONNX checker.
    """
    import onnxslim

    model = copy(model)
    constants = {tensor.name for tensor in model.graph.initializer}
    variables = [value for value in model.graph.input if value.name not in constants]
    if len(variables) != 1:
        raise UnavailableError(f"the graph has {len(variables)} inputs, expected one picture", "use another model file")
    name = variables[0].name
    slim = onnxslim.slim(model, input_shapes=[f"{name}:1,3,{height_px},{width_px}"])
    raised = raise_opset(slim)
    folded = fold_batch_norm(raised)
    onnx.checker.check_model(folded)
    return folded


def raise_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model in opset 13 (and an IR version that allows initialisers outside the inputs) or newer."""
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if opset < OPSET:
        model = onnx.version_converter.convert_version(model, OPSET)
    model = copy(model)
    model.ir_version = max(model.ir_version, 7)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    kept = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in inputs]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return model


def fold_batch_norm(model: onnx.ModelProto) -> onnx.ModelProto:
    """Batch normalisation after Conv or ConvTranspose becomes part of its weights and bias.

    y = gamma * (x - mean) / sqrt(var + epsilon) + beta, Ioffe and Szegedy 2015, eq. 1 to 4 at inference.
    """
    model = copy(model)
    index = GraphIndex(model.graph)
    for norm in [node for node in model.graph.node if node.op_type == "BatchNormalization"]:
        conv = index.producers.get(norm.input[0])
        if conv is None or conv.op_type not in ("Conv", "ConvTranspose") or index.only_consumer(conv.output[0]) is None:
            continue
        gamma, beta, mean, variance = (index.constant(name) for name in norm.input[1:5])
        gain = gamma / np.sqrt(variance + attributes(norm).get("epsilon", 1e-5))
        weights = index.constant(conv.input[1])
        bias = index.constant(conv.input[2]) if len(conv.input) > 2 else np.zeros_like(gain)
        if conv.op_type == "Conv":
            weights = weights * gain.reshape(-1, 1, 1, 1)
        else:                       # (in, out / group, kh, kw): outputs are grouped along the second axis
            group = int(attributes(conv).get("group", 1))
            per_input = gain.reshape(group, -1).repeat(len(weights) // group, axis=0)      # (in, out / group)
            weights = weights * per_input[:, :, None, None]
        name = norm.output[0]
        conv.input[1] = add_constant(model.graph, f"{name}_weights", weights.astype(np.float32))
        bias_name = add_constant(model.graph, f"{name}_bias", ((bias - mean) * gain + beta).astype(np.float32))
        if len(conv.input) > 2:
            conv.input[2] = bias_name
        else:
            conv.input.append(bias_name)
        conv.output[0] = name
        model.graph.node.remove(norm)
    sweep(model.graph)
    return model
