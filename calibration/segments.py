"""A graph cut into pieces that run one after the other, so that never all of its tensors are in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from edge.errors import UnavailableError
from edge.graph.index import sweep
from edge.inference.onnx_runtime import load_onnxruntime

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Cut:
    """Nodes [start, end) of a graph. reads: tensors from before it. gives: those of it that are wanted, or read later.

    wanted: tensors whose values are counted after this piece has run; some may be graph inputs.
    """

    start: int
    end: int
    reads: tuple[str, ...]
    gives: tuple[str, ...]
    wanted: tuple[str, ...]


def input_names(model: onnx.ModelProto) -> list[str]:
    """Inputs that a caller must give."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in constants]


def in_order(model: onnx.ModelProto, tensors: Sequence[str]) -> list[str]:
    """`tensors` without repetition, in the order in which the graph makes them.

    Raises ValueError for a name that is neither an input nor the output of a node.
    """
    known = [*input_names(model), *(name for node in model.graph.node for name in node.output)]
    position = {name: i for i, name in enumerate(known)}
    missing = [name for name in tensors if name not in position]
    if missing:
        raise ValueError(f"the graph makes no tensor {', '.join(missing)}")
    return sorted(set(tensors), key=position.__getitem__)


def cut(model: onnx.ModelProto, shares: Sequence[Sequence[str]]) -> list[Cut]:
    """One piece for each share of the wanted tensors, which are in the order in which the graph makes them.

    What is computed only for later outputs of the graph, after the last wanted tensor, is left out.
    """
    nodes = model.graph.node
    maker = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    constants = {tensor.name for tensor in model.graph.initializer}
    ends = [max((maker[name] + 1 for name in share if name in maker), default=0) for share in shares]
    needed = _needed_nodes(nodes, maker, [name for share in shares for name in share])
    cuts: list[Cut] = []
    start = 0
    for number, share in enumerate(shares):
        end = max(start, ends[number])
        later = {name for i in needed if i >= end for name in nodes[i].input}
        inside = [i for i in needed if start <= i < end]
        made = [name for i in inside for name in nodes[i].output if name]
        read = dict.fromkeys(name for i in inside for name in nodes[i].input if name and name not in constants)
        gives = [name for name in made if name in later or name in share]
        reads = tuple(name for name in read if name not in made)
        cuts.append(Cut(start, end, reads, tuple(gives), tuple(share)))
        start = end
    return cuts


class Segment:
    """One piece, loaded. types: what the tensors that it reads look like."""

    def __init__(self, model: onnx.ModelProto, piece: Cut, types: Mapping[str, Array], threads: int) -> None:
        self._piece = piece
        self._session = None
        if piece.gives:
            graph = _extracted(model, piece, types)
            self._session = open_session(graph, threads)

    def run(self, live: dict[str, Array]) -> None:
        """Read from and add to `live`. Raises UnavailableError when the run fails."""
        if self._session is None:
            return
        live.update(run_session(self._session, self._piece.gives, {name: live[name] for name in self._piece.reads}))


def open_session(model: onnx.ModelProto, threads: int) -> Any:
    """An ONNX Runtime session that keeps no memory between runs. Raises UnavailableError when it refuses the graph."""
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Both keep memory for every input size that ever came.
    options.enable_mem_pattern = False
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise UnavailableError(f"ONNX Runtime refuses the graph ({error})", "check the model file") from error


def run_session(session: Any, names: Sequence[str], feed: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs by name. Raises UnavailableError when the run fails."""
    try:
        return dict(zip(names, session.run(list(names), feed), strict=True))
    except Exception as error:          # its exceptions share no base class
        raise UnavailableError(
            f"ONNX Runtime cannot run the graph ({error})", "check that the input has a size that the model takes"
        ) from error


def _needed_nodes(nodes: Sequence[onnx.NodeProto], maker: Mapping[str, int], wanted: Sequence[str]) -> list[int]:
    needed: set[int] = set()
    open_names = list(wanted)
    while open_names:
        index = maker.get(open_names.pop())
        if index is not None and index not in needed:
            needed.add(index)
            open_names.extend(nodes[index].input)
    return sorted(needed)


def _extracted(model: onnx.ModelProto, piece: Cut, types: Mapping[str, Array]) -> onnx.ModelProto:
    """A model of the nodes of `piece` alone. Shapes are left free: inputs of several sizes go through it."""
    source = model.graph
    nodes = source.node[piece.start : piece.end]
    read = {name for node in nodes for name in node.input}
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(types[name].dtype)), [None] * types[name].ndim
        )
        for name in piece.reads
    ]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in piece.gives]      # types are inferred
    constants = [tensor for tensor in source.initializer if tensor.name in read]
    graph = onnx.helper.make_graph(nodes, "segment", inputs, outputs, constants)
    result = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    result.functions.extend(model.functions)
    sweep(result.graph)
    return result
