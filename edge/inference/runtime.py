"""What runs a prepared graph, whatever the library, and which library that is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from edge.errors import EdgeError, UnavailableError, UsageError
from edge.models.description import ModelDescription
from edge.settings import Backend
from edge.types import Float32, UInt8

Note = Callable[[str], None]


class Runtime(Protocol):
    """A detector graph, ready to run. `run` may be called from several threads at once."""

    def run(self, picture: UInt8) -> dict[str, Float32]:
        """Feature maps by name for one RGB picture, uint8 (1, height, width, 3).

        Height and width are multiples of the model's `stride_multiple`. Raises DetectorError when the run fails,
        DeviceLostError when no run will work any more in this process.
        """

    @property
    def parallel_runs(self) -> int:
        """How many calls of `run` at once keep the device busy."""

    @property
    def engine_sha256(self) -> str:
        """Of the engine that runs, hexadecimal; of several engines, over their hashes; empty for a plain graph."""

    def batches(self) -> Mapping[int, int]:
        """How often each batch size was run."""

    def describe(self) -> str:
        """Library, version and device, for people."""

    def close(self) -> None:
        """Give memory back. The runtime cannot be used afterwards."""


def ignore_note(text: str) -> None:
    """Tell nobody."""


def open_runtime(
    backend: Backend,
    path: Path,
    model: ModelDescription,
    engine_dir: Path | None = None,
    require_gpu: bool = False,
    note: Note = ignore_note,
) -> Runtime:
    """Load what was built for this model and machine, or prepare the graph in `path` and load that.

    backend: ``tensorrt`` takes engines or raises; ``auto`` takes them when they can be used, and else does what
        ``onnxruntime`` does: it takes the engine of ONNX Runtime when there is a current one, else the float graph.
    engine_dir: None is `edge.engines.store.default_engine_dir`.
    require_gpu: raise where ``auto`` or ``tensorrt`` would fall back, also for a picture of a size without an engine.
    note: called once with each reason why something that was expected is not used.
    Raises UnavailableError when what is asked for is not there or does not take the graph; ConfigError for an engine
    that is stale or damaged; UsageError for `require_gpu` with ``onnxruntime``.
    """
    from edge.engines.store import default_engine_dir

    directory = engine_dir or default_engine_dir()
    if backend == "onnxruntime":
        if require_gpu:
            raise UsageError("ONNX Runtime runs on the processor, and the GPU is required", "choose another backend")
        return _open_onnx_runtime(path, model, directory, note)
    try:
        return _open_tensorrt(path, model, directory, require_gpu, note)
    except EdgeError as error:
        if require_gpu or backend == "tensorrt":
            raise
        if _expected(directory, model):
            note(f"the GPU is not used: {error}")
    return _open_onnx_runtime(path, model, directory, note)


def _expected(directory: Path, model: ModelDescription) -> bool:
    """Whether a user would wonder why TensorRT is not used: there is a GPU, or something was built for one."""
    from edge.nvidia.driver import Gpu, first_gpu

    return any(directory.glob(f"{model.name}-tensorrt-*")) or isinstance(first_gpu(), Gpu)


def _open_tensorrt(path: Path, model: ModelDescription, directory: Path, require_gpu: bool, note: Note) -> Runtime:
    from edge.device import this_device
    from edge.engines.manifest import description_hash
    from edge.engines.store import find_engines, load_engine, rebuild_command
    from edge.inference.prepare import read_model

    stored = find_engines(directory, model.name, "tensorrt")
    rebuild = rebuild_command(directory, model.name, "tensorrt")
    if not stored:
        from edge.nvidia.driver import NoGpu, first_gpu

        if isinstance(gpu := first_gpu(), NoGpu):
            raise UnavailableError(f"TensorRT needs an NVIDIA GPU: {gpu.why}", "run with --backend onnxruntime")
        raise UnavailableError(f"there is no TensorRT engine of {model.title} in {directory}", f"run: {rebuild}")
    device = this_device()
    if device.unsupported:
        raise UnavailableError(device.unsupported, "run with --backend onnxruntime until then")
    if device.tensorrt is None:
        from edge.nvidia.tensorrt_api import load_tensorrt

        load_tensorrt()     # raises with the reason
    model_sha256 = hashlib.sha256(read_model(path)).hexdigest()
    payloads = [load_engine(engine, device, model_sha256, description_hash(model)) for engine in stored]

    from edge.inference.fallback import EngineRuntime, check_probe, combined_sha256
    from edge.inference.tensorrt import TensorRtRuntime

    runtime = TensorRtRuntime(payloads, model.title, stored[0].manifest.precision.kind)
    try:
        for engine in stored:
            check_probe(runtime, engine)
    except BaseException:
        runtime.close()
        raise
    engine_sha256 = combined_sha256([engine.manifest.sha256 for engine in stored])
    return EngineRuntime(
        runtime,
        lambda: _open_onnx_runtime(path, model, directory, note),
        rebuild,
        require_gpu,
        note,
        engine_sha256,
    )


def _open_onnx_runtime(path: Path, model: ModelDescription, directory: Path, note: Note) -> Runtime:
    from edge.inference.onnx_runtime import OnnxRuntime
    from edge.inference.prepare import prepared_graph

    try:
        engine = _open_onnx_engine(path, model, directory)
    except EdgeError as error:
        note(f"the engine for ONNX Runtime is not used: {error}")
        engine = None
    return engine or OnnxRuntime(prepared_graph(path, model), model.title)


def _open_onnx_engine(path: Path, model: ModelDescription, directory: Path) -> Runtime | None:
    """The engine of ONNX Runtime; None when none was built."""
    if not any(directory.glob(f"{model.name}-onnxruntime-*")):
        return None     # before anything else is imported: most machines build nothing
    from edge.device import this_device
    from edge.engines.manifest import description_hash
    from edge.engines.store import find_engine, load_engine
    from edge.inference.fallback import check_probe
    from edge.inference.onnx_runtime import OnnxRuntime
    from edge.inference.prepare import read_model

    stored = find_engine(directory, model.name, "onnxruntime", None, None)
    if stored is None:
        return None
    model_sha256 = hashlib.sha256(read_model(path)).hexdigest()
    payload = load_engine(stored, this_device(), model_sha256, description_hash(model))
    runtime = OnnxRuntime(payload, model.title, f"{stored.manifest.precision.kind} engine", stored.manifest.sha256)
    try:
        check_probe(runtime, stored)
    except BaseException:
        runtime.close()
        raise
    return runtime
