"""Fixtures of the tests on a GPU machine.

``$EDGE_GPU_GRAPHS`` is what tests.gpu.graphs wrote (default .gpu/graphs); ``$OUT`` is where plans and the timing cache
go, so that a second run of the tests builds nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from build_engines.tensorrt_builder import BuildRequest, Retrying, build, default_workspace_bytes
from edge.errors import UnavailableError
from edge.nvidia.cuda import load_pycuda
from edge.nvidia.driver import NoGpu, first_gpu
from edge.nvidia.tensorrt_api import load_tensorrt

ROOT = Path(__file__).parents[2]
GRAPHS = Path(os.environ.get("EDGE_GPU_GRAPHS") or ROOT / ".gpu" / "graphs")
BUILD_TIMEOUT_S = 400.0


def missing() -> str:
    """Why these tests cannot run here; empty when they can."""
    gpu = first_gpu()
    if isinstance(gpu, NoGpu):
        return f"no GPU: {gpu.why}"
    try:
        load_tensorrt()
        load_pycuda()
    except UnavailableError as error:
        return str(error)
    return "" if GRAPHS.is_dir() else f"no graphs in {GRAPHS}; see tests/gpu/graphs.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    why = missing() if here else ""
    for item in here:
        item.add_marker(pytest.mark.gpu)
        if why:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """CUDA keeps threads and files for the life of a process; what may stay is tested in test_teardown.py."""
    yield


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = Path(os.environ["OUT"]) if "OUT" in os.environ else tmp_path_factory.mktemp("out")
    place.mkdir(parents=True, exist_ok=True)
    return place


@pytest.fixture(scope="session")
def plan(out: Path) -> Callable[..., Path]:
    """Builds the plan of a graph, or finds it: ``plan("yunet_n", batches=(1, 8), int8=False)``."""

    def make(name: str, batches: tuple[int, ...] = (1, 8), int8: bool = False) -> Path:
        graph = GRAPHS / f"{name}.onnx"
        if not graph.is_file():
            pytest.skip(f"{graph} was not prepared")
        path = out / f"{name}-{'-'.join(map(str, batches))}.plan"
        if not path.is_file():
            request = BuildRequest(
                graph, path, batches, int8=int8, level=int(os.environ.get("EDGE_GPU_LEVEL", "1")),
                workspace_bytes=default_workspace_bytes(), timing_cache=out / "timing.cache", external_kernels=False,
            )   # fmt: skip
            built = build(request, lambda message: print(message) if isinstance(message, Retrying) else None,
                          BUILD_TIMEOUT_S)      # fmt: skip
            print(f"built {path.name} in {built.seconds:.1f} s, {built.bytes >> 10} KiB", file=sys.stderr, flush=True)
        return path

    return make
