"""Recognising a detector by the inputs and outputs of its graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge.errors import UnavailableError
from edge.models.description import Head, ModelDescription


@dataclass(frozen=True, slots=True)
class Tensor:
    """A graph input or output.

    dims: None where the size is not fixed. channels: of the convolution that an output comes from, if there is one.
    """

    name: str
    dims: tuple[int | None, ...]
    channels: int | None = None

    def __str__(self) -> str:
        return f"{self.name} ({', '.join('?' if dim is None else str(dim) for dim in self.dims)})"


@dataclass(frozen=True, slots=True)
class Signature:
    """What goes in and what comes out, initialisers left aside."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.inputs))} -> {', '.join(map(str, self.outputs))}"


def read_signature(content: bytes, where: str) -> Signature:
    """Signature of a serialised model. Raises UnavailableError when it is no ONNX model or not all of one."""
    import onnx

    from edge.graph.heads import before_activation
    from edge.graph.index import GraphIndex

    try:
        model = onnx.load_from_string(content)
    except Exception as error:      # protobuf's errors share no base class
        message = f"{where} is not an ONNX model, or not a complete one"
        raise UnavailableError(message, "copy or fetch it again") from error
    if not model.graph.node or not model.graph.output:
        raise UnavailableError(f"{where} has no graph in it", "name an ONNX model file")
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer):
        raise UnavailableError(
            f"{where} keeps its weights in another file",
            "join them first: onnx.save_model(onnx.load(FILE), NEW_FILE, save_as_external_data=False)",
        )
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(_tensor(value) for value in model.graph.input if value.name not in constants)
    index = GraphIndex(model.graph)

    def channels(output: str) -> int | None:
        source = index.producers.get(before_activation(index, output))
        if source is None or source.op_type != "Conv" or source.input[1] not in index.initializers:
            return None
        return int(index.initializers[source.input[1]].dims[0])

    return Signature(inputs, tuple(_tensor(value, channels(value.name)) for value in model.graph.output))


def _tensor(value: Any, channels: int | None = None) -> Tensor:
    dims = value.type.tensor_type.shape.dim
    return Tensor(value.name, tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in dims), channels)


def match(signature: Signature, known: Mapping[str, ModelDescription]) -> ModelDescription | None:
    """The description that reads this graph: by output names, or by the order and channels of the outputs.

    Where only names differ, or landmarks are missing, the description that comes back says so.
    """
    if len(signature.inputs) != 1 or len(signature.inputs[0].dims) != 4 or signature.inputs[0].dims[1] not in (3, None):
        return None
    names = [tensor.name for tensor in signature.outputs]
    for model in known.values():
        if sorted(names) == sorted(name for head in model.heads for name in model.output_names(head)):
            return model
    for model in known.values():
        for candidate in (model, _without_landmarks(model)):
            renamed = _by_order(signature, candidate)
            if renamed is not None:
                return renamed
    return None


def _without_landmarks(model: ModelDescription) -> ModelDescription:
    heads = tuple(head for head in model.heads if head.role != "landmarks")
    return model.model_copy(update={"heads": heads, "landmarks": ()})


def _by_order(signature: Signature, model: ModelDescription) -> ModelDescription | None:
    """Match outputs one by one with what the description lists; only for heads with one output per stride."""
    if any("{stride}" not in head.output for head in model.heads):
        return None
    wanted = [head for head in model.heads for _ in model.strides]
    if len(wanted) != len(signature.outputs):
        return None
    for head, tensor in zip(wanted, signature.outputs, strict=True):
        if tensor.channels != head.channels * model.anchors:
            return None
    names = [tensor.name for tensor in signature.outputs]
    count = len(model.strides)
    heads = tuple(
        Head(**{**head.model_dump(), "output": "|".join(names[place * count : (place + 1) * count])})
        for place, head in enumerate(model.heads)
    )
    return model.model_copy(update={"heads": heads})
