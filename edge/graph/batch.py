"""Several pictures in one run, and one size: what a TensorRT engine is built from."""

from __future__ import annotations

import numpy as np
import onnx

from edge.errors import UnavailableError
from edge.graph.index import Array, GraphIndex, add_constant, attributes, copy, sweep
from edge.graph.names import INPUT

BATCH = "batch"


def free_batch(model: onnx.ModelProto) -> onnx.ModelProto:
    """The first axis of inputs and outputs becomes free. Same numbers for every picture.

    The uint8 picture becomes float before it is transposed, not after: TensorRT 8.6 takes uint8 into nothing but a
    Cast. model: its first axes are 1, or free already. Raises UnavailableError when something in the graph works for
    one picture only.
    """
    model = copy(model)
    graph = model.graph
    _cast_first(graph)
    _free_shapes(model)
    for value in (*graph.input, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 0 or dims[0].dim_value > 1:
            raise UnavailableError(f"{value.name} has no batch axis of 1", "export the model for a batch of one")
        dims[0].Clear()
        dims[0].dim_param = BATCH
    del graph.value_info[:]
    sweep(graph)
    return model


def fix_size(model: onnx.ModelProto, batch: int | None, height_px: int, width_px: int) -> onnx.ModelProto:
    """The same graph for one size of picture. batch: None leaves that axis as it is.

    Inputs with four axes are pictures: uint8 ``picture`` (N, H, W, 3), others (N, C, H, W).
    """
    model = copy(model)
    graph = model.graph
    for value in graph.input:
        dims = value.type.tensor_type.shape.dim
        sizes = {} if batch is None else {0: batch}
        if len(dims) == 4:
            sizes.update(zip((1, 2) if value.name == INPUT else (2, 3), (height_px, width_px), strict=True))
        for axis, size in sizes.items():
            dims[axis].Clear()
            dims[axis].dim_value = size
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    for value in model.graph.output:        # inference invents names for free axes
        dims = value.type.tensor_type.shape.dim
        if batch is None and len(dims) > 0 and not dims[0].HasField("dim_value"):
            dims[0].dim_param = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    return model


def _cast_first(graph: onnx.GraphProto) -> None:
    """Swap Transpose and Cast where bytes are transposed before they become float."""
    index = GraphIndex(graph)
    bytes_in = {value.name for value in graph.input if value.type.tensor_type.elem_type == onnx.TensorProto.UINT8}
    for turn in [node for node in graph.node if node.op_type == "Transpose" and node.input[0] in bytes_in]:
        cast = index.only_consumer(turn.output[0])
        if cast is None or cast.op_type != "Cast":
            raise UnavailableError(f"{turn.input[0]} does not become float", "use another model file")
        cast.input[0], turn.input[0] = turn.input[0], turn.output[0]
        cast.output[0], turn.output[0] = turn.output[0], cast.output[0]
        turn.input[0] = cast.output[0]


def _free_shapes(model: onnx.ModelProto) -> None:
    """Constant shapes that hold a batch of 1 take the batch from their input instead."""
    graph = model.graph
    index = GraphIndex(graph)
    shapes = _known_shapes(model)
    for node in graph.node:
        if node.op_type == "Reshape":
            wanted = _constant(index, node, 1)
            if wanted[0] == 1:
                inner = wanted.copy()
                inner[0] = 0            # as in the input
                node.input[1] = add_constant(graph, f"{node.output[0]}_shape", inner)
            elif wanted[0] not in (0, -1) or attributes(node).get("allowzero", 0):
                raise UnavailableError(f"{node.output[0]} mixes the batch with other axes", "use another model file")
        elif node.op_type == "Resize" and len(node.input) > 3 and node.input[3]:
            before, after = shapes[node.input[0]], _constant(index, node, 3)
            if not all(before[1:]):
                raise UnavailableError(f"{node.output[0]} is of one size only", "fix the size of the model")
            factors = np.asarray([1, *(after[1:] / np.asarray(before[1:]))], np.float32)
            source = node.input[0]
            del node.input[:]
            node.input.extend([source, "", add_constant(graph, f"{node.output[0]}_factors", factors)])
        elif node.op_type in ("Expand", "Tile", "ConstantOfShape"):
            raise UnavailableError(f"{node.op_type} makes tensors for one picture", "use another model file")


def _known_shapes(model: onnx.ModelProto) -> dict[str, list[int]]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    return {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.value_info, *graph.output)
    }


def _constant(index: GraphIndex, node: onnx.NodeProto, place: int) -> Array:
    if node.input[place] not in index.initializers:
        raise UnavailableError(f"the shape of {node.output[0]} is computed", "simplify the model first")
    return index.constant(node.input[place])
