"""edge-run and engines: what is taken, what is said, with which code it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge.engines.manifest import PrecisionPlan
from edge.engines.store import write_engine
from edge.nvidia.driver import Gpu, first_gpu
from tests.harness.default_model import default_description
from tests.harness.engines import manifest_for, write_onnx_engine

ROOT = Path(__file__).parents[2]
MODEL = default_description()
pytestmark = pytest.mark.skipif(isinstance(first_gpu(), Gpu), reason="there is a GPU here")


@pytest.fixture
def run(tmp_path: Path, default_model: Path) -> Any:
    """Runs edge-run on two small pictures; gives its exit code, its events and its messages."""
    for name in ("one", "two"):
        cv2.imwrite(str(tmp_path / f"{name}.png"), np.full((120, 160, 3), 90, np.uint8))

    def run_(*options: str) -> tuple[int, list[dict[str, Any]], str]:
        command = [sys.executable, "-m", "edge.cli.run", "one.png", "two.png", "-o", "out", "--json"]
        command += ["--model", str(default_model), "--engine-dir", "engines", *options]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    return run_


def said(events: list[dict[str, Any]], word: str) -> list[str]:
    return [text for event in events for text in map(str, event.values()) if word in text]


def write_tensorrt_engine(directory: Path, model: Path) -> None:
    manifest = manifest_for(
        model, MODEL, backend="tensorrt", height_px=192, width_px=320, precision=PrecisionPlan(kind="int8"),
        device="NVIDIA Jetson AGX Orin", compute_capability="8.7", tensorrt="8.6.2", cuda="12.2",
    )   # fmt: skip
    write_engine(directory, b"plan", manifest)


def test_an_engine_of_onnx_runtime_is_used(run: Any, tmp_path: Path, default_model: Path) -> None:
    write_onnx_engine(tmp_path / "engines", default_model, MODEL, precision=PrecisionPlan(kind="int8"))
    code, events, errors = run()
    assert code == 0, errors
    assert len(said(events, "(CPU), int8 engine")) == 2


def test_the_reason_for_a_fallback_is_told_once(run: Any, tmp_path: Path, default_model: Path) -> None:
    write_tensorrt_engine(tmp_path / "engines", default_model)
    code, events, errors = run()
    assert code == 0, errors
    assert len(said(events, "the GPU is not used: TensorRT cannot be loaded")) == 1


def test_require_gpu_makes_it_an_error(run: Any, tmp_path: Path, default_model: Path) -> None:
    code, events, errors = run("--require-gpu")
    assert (code, len(said(events, "TensorRT needs an NVIDIA GPU"))) == (1, 2), errors     # both of them failed
    write_tensorrt_engine(tmp_path / "engines", default_model)
    next((tmp_path / "engines").glob("*.json")).unlink()
    code, events, errors = run("--require-gpu")
    assert len(said(events, f"edge-build --int8 --model {MODEL.name} --backend tensorrt --engine-dir engines")) == 2
    assert not list((tmp_path / "out").glob("*.png"))
