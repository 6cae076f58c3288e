"""A network to build: its float graph, what it is fed with, and its final form for each backend."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from build_engines.backend import BackendName
from calibration.placement import quantisable
from calibration.quantize import quantize
from edge.graph.batch import fix_size, free_batch
from edge.graph.index import copy
from edge.graph.layers import Layer, layers
from edge.graph.names import INPUT
from edge.graph.strips import split_into_strips
from edge.inference.prepare import read_model, reference_graph
from edge.models.choose import ResolvedModel

Feed = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """name: for files and messages. reference: float, see `edge.inference.prepare.reference_graph`, or any other graph
    of fixed size. sha256: of the published file. height_px, width_px: of the input that candidates are built for and
    timed at. samples: inputs that errors are measured on. stride_multiple: None for what is not one of our detectors.
    """

    name: str
    title: str
    reference: onnx.ModelProto
    sha256: str
    height_px: int
    width_px: int
    samples: tuple[Feed, ...] = ()
    stride_multiple: int | None = None
    layers: tuple[Layer, ...] = field(init=False)
    quantisable: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", layers(self.reference))
        object.__setattr__(self, "quantisable", quantisable(self.reference))

    def owners(self) -> dict[str, str]:
        """The layer that each tensor of the graph comes out of, its weights included; for profiles.

        What a layer's result goes through until the next layer is its own; of several the last one counts.
        """
        owners = {layer.weights: layer.name for layer in self.layers}
        own = {layer.name for layer in self.layers}
        for node in self.reference.graph.node:
            sources = [owners[name] for name in node.input if name in owners]
            for name in node.output:
                if name in own:
                    owners[name] = name
                elif sources:
                    owners[name] = sources[-1]
        return owners

    def quantized(self, amax: Mapping[str, float], int8: Collection[str]) -> onnx.ModelProto:
        """The reference graph with these layers in INT8."""
        return quantize(self.reference, amax, int8) if int8 else self.reference

    def final(
        self,
        backend: BackendName,
        amax: Mapping[str, float],
        int8: Collection[str],
        size: tuple[int, int] | None = None,
    ) -> bytes:
        """The graph as `backend` takes it, serialised; `size`: (height, width) instead of the network's own.

        ONNX Runtime runs detectors of any size, in strips where that saves memory; TensorRT gets one size and any
        batch. Every node is named after its first output, so that a profile can be read.
        """
        model = self.quantized(amax, int8)
        if backend == "tensorrt":
            model = fix_size(free_batch(model), None, *(size or (self.height_px, self.width_px)))
        elif self.stride_multiple is not None and not int8:
            model = split_into_strips(model, self.stride_multiple)
        return bytes(named(model).SerializeToString())


def named(model: onnx.ModelProto) -> onnx.ModelProto:
    """Every node named after its first output."""
    model = copy(model)
    for node in model.graph.node:
        node.name = node.output[0]
    return model


def detector_network(
    resolved: ResolvedModel, height_px: int, width_px: int, samples: Sequence[npt.NDArray[np.uint8]] = ()
) -> Network:
    """The network of a face detector. Raises UnavailableError when its file cannot be used."""
    published = read_model(resolved.path)
    model = resolved.description
    return Network(
        model.name,
        model.title,
        reference_graph(published, model),
        hashlib.sha256(published).hexdigest(),
        height_px,
        width_px,
        tuple({INPUT: sample} for sample in samples),
        model.input.stride_multiple,
    )
