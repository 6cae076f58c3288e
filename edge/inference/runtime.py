"""What runs a prepared graph, whatever the library."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from edge.errors import UnavailableError
from edge.models.description import ModelDescription
from edge.settings import Backend
from edge.types import Float32, UInt8


class Runtime(Protocol):
    """A detector graph of one input size, ready to run. `run` may be called from several threads at once.

    input_shape: (1, height, width, 3).
    """

    input_shape: tuple[int, int, int, int]

    def run(self, picture: UInt8) -> dict[str, Float32]:
        """Feature maps by name for one RGB picture of `input_shape`. Raises DetectorError when the run fails."""

    def describe(self) -> str:
        """Library, version and device, for people."""

    def close(self) -> None:
        """Give memory back. The runtime cannot be used afterwards."""


def open_runtime(backend: Backend, path: Path, model: ModelDescription, height_px: int, width_px: int) -> Runtime:
    """Prepare `path` for one input size and load it.

    Raises UnavailableError when the backend is not there or does not take the graph.
    """
    if backend == "tensorrt":
        raise UnavailableError(
            "TensorRT engines are not supported by this version", "run with --backend onnxruntime, or leave it out"
        )
    from edge.graph.prepare import prepared_graph
    from edge.inference.onnx_runtime import OnnxRuntime

    return OnnxRuntime(prepared_graph(path, model, height_px, width_px), model.title)
