"""Candidates built by the backend, with NVIDIA's builder and without a GPU. Timing is tested in tests/gpu."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_engines.backend import BuildBackend, Candidate
from build_engines.tensorrt_backend import TensorRtBackend, timing_cache_path
from edge.device import Device, this_device
from edge.errors import BuildError
from edge.graph.batch import fix_size, free_batch
from edge.inference.prepare import read_model, reference_graph
from tests.harness.default_model import default_description


@pytest.fixture
def backend(tmp_path: Path) -> BuildBackend:
    pytest.importorskip("tensorrt_rtx")
    return TensorRtBackend(tmp_path / "work", tmp_path, library="tensorrt_rtx", target="8.6")


def test_a_detector_in_both_types(backend: BuildBackend, default_model: Path, tmp_path: Path) -> None:
    reference = reference_graph(read_model(default_model), default_description())
    graph = fix_size(free_batch(reference), None, 192, 320).SerializeToString()
    told: list[str] = []
    half = backend.build(Candidate("half", frozenset(), graph), progress=told.append)
    full = backend.build(Candidate("full", frozenset(), graph, half=False), progress=told.append)
    assert half.bytes == half.payload.stat().st_size
    assert half.bytes < full.bytes          # types are in the graph: FP16 made a difference
    assert half.seconds > 0
    assert "Memory" in half.log_tail
    assert told
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["full.plan", "half.plan"]
    assert backend.describe() == this_device()


def test_a_graph_that_cannot_be_built_leaves_nothing(backend: BuildBackend, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"cannot read broken\.onnx"):
        backend.build(Candidate("broken", frozenset(), b"garbage", half=False), progress=lambda text: None)
    with pytest.raises(BuildError, match="FP16 cannot be written into the graph of broken"):
        backend.build(Candidate("broken", frozenset(), b"garbage"), progress=lambda text: None)
    assert list((tmp_path / "work").iterdir()) == []


def test_kernel_times_are_kept_per_gpu_and_version() -> None:
    orin = Device("Orin", "aarch64", "8.7", "8.6.2", "12.2", "6.0")
    assert timing_cache_path(Path("/e"), orin) == Path("/e/timing-8.6.2-sm8.7-cuda12.2.cache")

