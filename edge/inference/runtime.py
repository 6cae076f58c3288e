"""What runs a prepared graph, whatever the library."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from edge.errors import UnavailableError
from edge.models.description import ModelDescription
from edge.settings import Backend
from edge.types import Float32, UInt8


class Runtime(Protocol):
    """A detector graph, ready to run. `run` may be called from several threads at once."""

    def run(self, picture: UInt8) -> dict[str, Float32]:
        """Feature maps by name for one RGB picture, uint8 (1, height, width, 3).

        Height and width are multiples of the model's `stride_multiple`. Raises DetectorError when the run fails.
        """

    def describe(self) -> str:
        """Library, version and device, for people."""

    def close(self) -> None:
        """Give memory back. The runtime cannot be used afterwards."""


def open_runtime(backend: Backend, path: Path, model: ModelDescription) -> Runtime:
    """Prepare the graph in `path` and load it.

    Raises UnavailableError when the backend is not there or does not take the graph.
    """
    if backend == "tensorrt":
        raise UnavailableError(
            "TensorRT engines are not supported by this version", "run with --backend onnxruntime, or leave it out"
        )
    from edge.inference.onnx_runtime import OnnxRuntime
    from edge.inference.prepare import prepared_graph

    return OnnxRuntime(prepared_graph(path, model), model.title)
