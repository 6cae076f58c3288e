"""Engines in a directory, as edge-build leaves them, without building."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge.device import this_device
from edge.engines.manifest import Manifest, PrecisionPlan, Probe, ProbeOutput, description_hash
from edge.engines.probe import Run, make_probe
from edge.engines.store import write_engine
from edge.inference.onnx_runtime import OnnxRuntime
from edge.inference.prepare import prepared_graph
from edge.models.description import ModelDescription

ANY_PROBE = Probe(
    seed=1, height_px=64, width_px=64, tolerance=0.02,
    outputs=(ProbeOutput(name="stride_8", shape=(1, 16, 8, 8), mean=0.0, rms=1.0, samples=(0.0,)),),
)   # fmt: skip


def manifest_for(path: Path, model: ModelDescription, **values: Any) -> Manifest:
    """A manifest that is current on this machine for the model file in `path`, but for `values`."""
    device = this_device()
    return Manifest(**{
        "model": model.name, "model_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "description_sha256": description_hash(model), "backend": "onnxruntime", "toolkit": "test",
        "precision": PrecisionPlan(kind="fp32"), "device": device.name, "machine": device.machine,
        "compute_capability": device.compute_capability, "tensorrt": device.tensorrt, "cuda": device.cuda,
        "probe": ANY_PROBE, "created_utc": "2026-01-01T00:00:00Z",
    } | values)     # fmt: skip


def write_onnx_engine(
    directory: Path, path: Path, model: ModelDescription, probed: Callable[[Run], Run] = lambda run: run, **values: Any
) -> Path:
    """The float graph as an engine for ONNX Runtime. probed: changes what the probe is made from."""
    graph = prepared_graph(path, model)
    runtime = OnnxRuntime(graph, model.title)
    probe = make_probe(probed(runtime.run), 96, 160)
    runtime.close()
    return write_engine(directory, graph, manifest_for(path, model, probe=probe, **values))
