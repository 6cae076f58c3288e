"""Which library runs a model, and what is said when it is not the one that was expected."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from edge.engines.manifest import PrecisionPlan
from edge.engines.probe import Run, differences, make_probe, probe_input
from edge.engines.store import write_engine
from edge.errors import ConfigError, EdgeError, UnavailableError, UsageError
from edge.graph.names import map_name
from edge.inference.fallback import EngineRuntime
from edge.inference.onnx_runtime import OnnxRuntime
from edge.inference.prepare import prepared_graph
from edge.inference.runtime import Runtime, open_runtime
from edge.nvidia.driver import Gpu, first_gpu
from edge.settings import Backend
from edge.types import Float32, UInt8
from tests.harness.default_model import default_description
from tests.harness.engines import manifest_for, write_onnx_engine

MODEL = default_description()
Opened = Callable[..., tuple[str, list[str]]]      # arguments of `opened`; what runs, and notes
no_gpu = pytest.mark.skipif(isinstance(first_gpu(), Gpu), reason="there is a GPU here")


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    return tmp_path / "engines"


@pytest.fixture
def opened(default_model: Path, engines: Path) -> Opened:
    def open_(backend: Backend = "auto", require_gpu: bool = False) -> tuple[str, list[str]]:
        notes: list[str] = []
        runtime = open_runtime(backend, default_model, MODEL, engines, require_gpu, notes.append)
        try:
            assert set(runtime.run(np.zeros((1, 64, 64, 3), np.uint8))) == set(map(map_name, MODEL.strides))
            return runtime.describe(), notes
        finally:
            runtime.close()

    return open_


@no_gpu
@pytest.mark.parametrize("backend", ["auto", "onnxruntime"])
def test_nothing_built_and_no_gpu_is_nothing_to_talk_about(opened: Opened, backend: str) -> None:
    described, notes = opened(backend)
    assert described.endswith(" (CPU)")
    assert notes == []


@no_gpu
@pytest.mark.parametrize("backend", ["auto", "onnxruntime"])
def test_a_current_engine_of_onnx_runtime_is_taken(
    opened: Opened, default_model: Path, engines: Path, backend: str
) -> None:
    write_onnx_engine(engines, default_model, MODEL)
    described, notes = opened(backend)
    assert described.endswith(" (CPU), fp32 engine")
    assert notes == []


def shifted(run: Run) -> Run:
    return lambda picture: {name: values + 0.5 for name, values in run(picture).items()}


@no_gpu
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda d, m: write_onnx_engine(d, m, MODEL, model_sha256="0" * 64), f"from another file of {MODEL.name}"),
        (lambda d, m: write_onnx_engine(d, m, MODEL, machine="riscv64"), "for processor architecture riscv64, this"),
        (lambda d, m: write_onnx_engine(d, m, MODEL, probed=shifted), "gives other results than when it was built (st"),
        (lambda d, m: write_onnx_engine(d, m, MODEL).write_bytes(b"x"), "has 1 bytes where its manifest says"),
        (lambda d, m: write_engine(d, b"no graph", manifest_for(m, MODEL)), f"ONNX Runtime refuses {MODEL.title}"),
    ],
    ids=["other model", "other machine", "probe", "truncated", "garbage"],
)
def test_one_that_is_not_current_is_left_with_the_reason(
    opened: Opened,
    default_model: Path,
    engines: Path,
    spoil: Callable[[Path, Path], object],
    said: str,
) -> None:
    spoil(engines, default_model)
    described, notes = opened()
    assert described.endswith(" (CPU)")
    assert len(notes) == 1
    assert notes[0].startswith("the engine for ONNX Runtime is not used: ")
    assert said in notes[0]


def write_tensorrt_engine(engines: Path, model: Path) -> None:
    precision = PrecisionPlan(kind="fp16")
    manifest = manifest_for(
        model, MODEL, backend="tensorrt", height_px=384, width_px=640, precision=precision,
        compute_capability="8.7", tensorrt="8.6.2", cuda="12.2",
    )   # fmt: skip
    write_engine(engines, b"plan", manifest)


@no_gpu
def test_an_engine_that_this_machine_cannot_run_is_announced(
    opened: Opened, default_model: Path, engines: Path
) -> None:
    write_tensorrt_engine(engines, default_model)
    described, notes = opened()
    assert described.endswith(" (CPU)")
    assert len(notes) == 1
    assert notes[0].startswith("the GPU is not used: TensorRT cannot be loaded")


@no_gpu
@pytest.mark.parametrize(
    ("arguments", "built", "error", "code", "said"),
    [
        (("auto", True), False, UnavailableError, 69, "TensorRT needs an NVIDIA GPU"),
        (("tensorrt", False), False, UnavailableError, 69, "TensorRT needs an NVIDIA GPU"),
        (("tensorrt", True), True, UnavailableError, 69, "TensorRT cannot be loaded"),
        (("onnxruntime", True), False, UsageError, 64, "the GPU is required"),
    ],
)
def test_what_is_asked_for_is_an_error_where_it_is_not(
    opened: Opened,
    default_model: Path,
    engines: Path,
    arguments: tuple[Backend, bool],
    built: bool,
    error: type[EdgeError],
    code: int,
    said: str,
) -> None:
    if built:
        write_tensorrt_engine(engines, default_model)
    with pytest.raises(error, match=said) as caught:
        opened(*arguments)
    assert caught.value.exit_code == code


def test_a_damaged_engine_is_an_error_where_the_gpu_is_required(
    opened: Opened, default_model: Path, engines: Path
) -> None:
    write_tensorrt_engine(engines, default_model)
    next(engines.glob("*.json")).write_text("{")
    with pytest.raises(ConfigError, match=rf"is damaged.*edge-build --int8 --model {MODEL.name} --back") as caught:
        opened("auto", True)
    assert caught.value.exit_code == 78


class TwoSizes(OnnxRuntime):
    """Says that it runs two sizes only, as engines do."""

    sizes = frozenset({(64, 96), (96, 64)})


@pytest.fixture
def graph(default_model: Path) -> bytes:
    return prepared_graph(default_model, MODEL)


def mixed(graph: bytes, require_gpu: bool, notes: list[str]) -> tuple[EngineRuntime, list[Runtime]]:
    others: list[Runtime] = []

    def open_other() -> Runtime:
        others.append(OnnxRuntime(graph, "the other"))
        return others[-1]

    return EngineRuntime(TwoSizes(graph, "engines"), open_other, "edge-build X", require_gpu, notes.append), others


def test_a_size_without_an_engine_falls_back_and_is_announced_once(graph: bytes) -> None:
    notes: list[str] = []
    runtime, others = mixed(graph, False, notes)
    runtime.run(np.zeros((1, 64, 96, 3), np.uint8))
    assert (others, notes) == ([], [])
    with ThreadPoolExecutor(4) as threads:
        shapes = [(1, 64, 96, 3), (1, 128, 96, 3), (1, 128, 96, 3), (1, 96, 128, 3)] * 4
        results = list(threads.map(lambda shape: runtime.run(np.zeros(shape, np.uint8)), shapes))
    stride = MODEL.strides[0]
    heights = [result[map_name(stride)].shape[2] * stride for result in results[:4]]
    assert heights == [64, 128, 128, 96]
    assert len(others) == 1
    assert sorted(note.split("inputs of ")[1].split(",")[0] for note in notes) == ["128x96", "96x128"]
    assert all(note.endswith("run: edge-build X --frame WxH, with the size of the pictures") for note in notes)
    runtime.close()
    runtime.close()


def test_a_size_without_an_engine_is_an_error_where_the_gpu_is_required(graph: bytes) -> None:
    runtime, others = mixed(graph, True, [])
    with pytest.raises(ConfigError, match="no TensorRT engine for detector inputs of 128x96; run: edge-build X"):
        runtime.run(np.zeros((1, 96, 128, 3), np.uint8))
    assert others == []
    runtime.close()


def test_the_probe_tells_engines_apart(graph: bytes) -> None:
    runtime = OnnxRuntime(graph, "test")
    probe = make_probe(runtime.run, 96, 160)
    assert differences(probe, runtime.run) == []

    def changed(change: Callable[[Float32], Float32]) -> list[str]:
        return differences(probe, lambda picture: {name: change(maps) for name, maps in runtime.run(picture).items()})

    assert changed(lambda maps: maps * np.float32(1.0001)) == []
    assert len(changed(lambda maps: maps * np.float32(1.1))) == len(MODEL.strides)
    assert "off by nan" in changed(lambda maps: np.full_like(maps, np.nan))[0]
    assert all("has the shape (1, " in text for text in changed(lambda maps: maps[:, :, ::2, ::2]))
    names = sorted(map(map_name, MODEL.strides))
    assert differences(probe, lambda _: {"other": probe_input(8, 8)}) == [f"outputs ['other'] instead of {names}"]
    with pytest.raises(ConfigError, match=r"stride_.* are not finite; build in FP32"):
        make_probe(lambda picture: {n: m * np.float32(np.nan) for n, m in runtime.run(picture).items()}, 96, 160)
    runtime.close()


def test_the_probe_input_is_the_same_everywhere() -> None:
    picture: UInt8 = probe_input(96, 160)
    assert (picture.shape, picture.dtype) == ((1, 96, 160, 3), np.uint8)
    assert int(picture.astype(np.int64).sum()) == 7_051_286
    assert len(np.unique(picture)) > 200
