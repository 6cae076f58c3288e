"""Engines in a directory on a machine with a GPU: taken when current, refused with the reason otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge.device import this_device
from edge.engines.manifest import PrecisionPlan, Probe
from edge.engines.probe import make_probe
from edge.engines.store import write_engine
from edge.errors import ConfigError
from edge.inference.runtime import open_runtime
from edge.inference.tensorrt import TensorRtRuntime
from edge.models.description import description
from tests.gpu.conftest import GRAPHS
from tests.harness.engines import manifest_for

MODEL = description("yunet_n")
PUBLISHED = GRAPHS / "yunet_n.published.onnx"
SIZE = (384, 640)


@pytest.fixture(scope="module")
def probe(plan: Callable[..., Path]) -> Probe:
    runtime = TensorRtRuntime([plan("yunet_n").read_bytes()], MODEL.title)
    made = make_probe(runtime.run, *SIZE)
    runtime.close()
    return made


@pytest.fixture
def store(plan: Callable[..., Path], probe: Probe, tmp_path: Path) -> Callable[..., Path]:
    """Writes the engine of YuNet into a fresh directory, with a manifest that is current but for some values."""

    def write(**values: Any) -> Path:
        given = {"backend": "tensorrt", "height_px": SIZE[0], "width_px": SIZE[1], "batches": (1, 8), "probe": probe}
        manifest = manifest_for(PUBLISHED, MODEL, precision=PrecisionPlan(kind="fp16"), **(given | values))
        write_engine(tmp_path / "engines", plan("yunet_n"), manifest)
        return tmp_path / "engines"

    return write


def test_a_current_engine_is_taken(store: Callable[..., Path]) -> None:
    notes: list[str] = []
    runtime = open_runtime("auto", PUBLISHED, MODEL, store(), require_gpu=True, note=notes.append)
    device = this_device()
    assert runtime.describe() == f"TensorRT {device.tensorrt} ({device.name}, fp16)"
    assert notes == []
    assert set(runtime.run(np.zeros((1, *SIZE, 3), np.uint8))) == {"stride_8", "stride_16", "stride_32"}
    with pytest.raises(ConfigError, match=r"no TensorRT engine for detector inputs of 64x64; run: edge-bu"):
        runtime.run(np.zeros((1, 64, 64, 3), np.uint8))
    runtime.close()


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "another TensorRT": ({"tensorrt": "8.5.2"}, "was built for TensorRT 8.5.2, this machine has"),
    "another GPU": ({"compute_capability": "7.2"}, "was built for GPU compute capability 7.2, this machine has"),
    "another device": ({"device": "NVIDIA Jetson AGX Xavier"}, "was built for device NVIDIA Jetson AGX Xavier, this"),
    "another CUDA": ({"cuda": "11.4"}, "was built for CUDA 11.4, this machine has"),
    "another model": ({"model_sha256": "0" * 64}, "was built from another file of yunet_n"),
}


@pytest.mark.parametrize(("values", "said"), FAULTS.values(), ids=list(FAULTS))
def test_one_for_something_else_is_not(store: Callable[..., Path], values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        open_runtime("tensorrt", PUBLISHED, MODEL, store(**values))
    assert caught.value.exit_code == 78
    assert "run: edge-build --int8 --model yunet_n --backend tensorrt" in caught.value.remedy


def test_one_flipped_byte_never_reaches_tensorrt(store: Callable[..., Path]) -> None:
    directory = store()
    path = next(directory.glob("*.engine"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="its content is not what was built"):
        open_runtime("tensorrt", PUBLISHED, MODEL, directory)


def test_an_engine_that_computes_something_else(store: Callable[..., Path], probe: Probe) -> None:
    outputs = tuple(output.model_copy(update={"mean": output.mean + output.rms}) for output in probe.outputs)
    directory = store(probe=probe.model_copy(update={"outputs": outputs}))
    with pytest.raises(ConfigError, match="gives other results than when it was built"):
        open_runtime("tensorrt", PUBLISHED, MODEL, directory)


def test_the_reason_is_told_once_when_it_falls_back(store: Callable[..., Path]) -> None:
    pytest.importorskip("onnxslim")
    notes: list[str] = []
    runtime = open_runtime("auto", PUBLISHED, MODEL, store(tensorrt="8.5.2"), note=notes.append)
    assert runtime.describe().startswith("ONNX Runtime ")
    runtime.close()
    assert len(notes) == 1
    assert notes[0].startswith("the GPU is not used: ")


def test_a_size_without_an_engine_runs_on_the_processor(store: Callable[..., Path]) -> None:
    pytest.importorskip("onnxslim")
    notes: list[str] = []
    runtime = open_runtime("auto", PUBLISHED, MODEL, store(), note=notes.append)
    for _ in range(2):
        assert runtime.run(np.zeros((1, 64, 96, 3), np.uint8))["stride_8"].shape == (1, 16, 8, 12)
    assert len(notes) == 1
    assert "no TensorRT engine for detector inputs of 96x64, they run on ONNX Runtime" in notes[0]
    runtime.close()


def test_a_clip_in_nv12_gives_the_same_boxes_as_on_the_processor(store: Callable[..., Path]) -> None:
    pytest.importorskip("cv2")
    pytest.importorskip("onnxslim")
    from edge.inference.local_network import open_detector
    from edge.settings import DetectSettings
    from edge.types import Picture, Plane

    directory = store()
    settings = {"model": str(PUBLISHED), "scales": (640,), "engine_dir": directory}
    gpu = open_detector(DetectSettings(backend="tensorrt", require_gpu=True, **settings))
    cpu = open_detector(DetectSettings(backend="onnxruntime", **settings))
    with np.load(GRAPHS / "clip.npz") as file:
        frames = list(zip(file["luma"], file["chroma"], strict=True))
    faces = 0
    for luma, chroma in frames:
        height, width = luma.shape
        picture = Picture(width, height, "nv12", (Plane(luma.copy()), Plane(chroma.copy(), 2, 2)))
        got, want = gpu.detect(picture, (640,), 0.3), cpu.detect(picture, (640,), 0.3)
        sure = want.scores >= 0.4       # one at the limit may fall on either side of it
        for box, score in zip(want.boxes[sure], want.scores[sure], strict=True):
            apart = np.abs(got.boxes - box).max(axis=1)
            nearest = int(apart.argmin())
            assert apart[nearest] < 0.02 * max(box[2] - box[0], box[3] - box[1]) + 0.5
            assert abs(got.scores[nearest] - score) < 0.02
        assert abs(len(got) - len(want)) <= int((~sure).sum()) + int((got.scores < 0.4).sum())
        faces += int(sure.sum())
    assert faces >= len(frames)
    assert gpu.take_notes() == []
    gpu.close()
    cpu.close()
