"""ONNX Runtime behind the runtime protocol."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from edge.errors import DetectorError, UnavailableError
from edge.inference.onnx_runtime import OnnxRuntime, load_onnxruntime
from edge.inference.runtime import Runtime, open_runtime
from edge.models.description import description
from tests.unit.models.published import model_file


@pytest.fixture
def runtime(shared_data: Path) -> Runtime:
    return open_runtime("auto", model_file(shared_data, "yunet_n"), description("yunet_n"))


def test_any_size_from_one_session_and_many_threads(runtime: Runtime) -> None:
    random = np.random.default_rng(3)
    pictures = [random.integers(0, 256, (1, 32 * n, 64, 3)).astype(np.uint8) for n in (1, 2, 3, 4) * 4]
    alone = [runtime.run(picture) for picture in pictures]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(runtime.run, pictures))
    for picture, first, second in zip(pictures, alone, together, strict=True):
        assert first["stride_8"].shape == (1, 16, picture.shape[1] // 8, 8)
        for name in ("stride_8", "stride_16", "stride_32"):
            np.testing.assert_array_equal(first[name], second[name])


@pytest.mark.parametrize(
    "picture",
    [np.zeros((1, 64, 64, 3), np.float32), np.zeros((64, 64, 3), np.uint8), np.zeros((1, 64, 64, 4), np.uint8)],
)
def test_what_it_cannot_run_is_a_detector_error(runtime: Runtime, picture: np.ndarray) -> None:
    with pytest.raises(DetectorError, match="ONNX Runtime failed"):
        runtime.run(picture)


def test_it_says_what_it_is(runtime: Runtime) -> None:
    assert runtime.describe() == f"ONNX Runtime {load_onnxruntime().__version__} (CPU)"


def test_nothing_is_reported_home(shared_data: Path, tmp_path: Path) -> None:
    """A fresh process, in a fresh home, prepares a graph and runs it: no collector's database, no connection."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "import numpy as np\n"
        "from edge.inference.runtime import open_runtime\n"
        "from edge.models.description import description\n"
        "runtime = open_runtime('auto', Path(sys.argv[1]), description('yunet_n'))\n"
        "runtime.run(np.zeros((1, 64, 64, 3), np.uint8))\n"
        "open_files = [path for path in Path('/proc/self/fd').iterdir() if path.is_symlink()]\n"
        "links = [os.readlink(path) for path in open_files]\n"
        "print([link for link in links if link.startswith('socket') or 'onnxruntime' in link])\n"
    )
    variables = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", code, str(model_file(shared_data, "yunet_n"))],
        env=variables, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True,
    )   # fmt: skip
    assert done.stdout.strip() == "[]"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [
        path.name for path in (tmp_path / ".cache/edge/graphs").iterdir()
    ]


def test_garbage_is_refused() -> None:
    with pytest.raises(UnavailableError, match="ONNX Runtime refuses test"):
        OnnxRuntime(b"garbage", "test")


def test_closed_is_closed(runtime: Runtime) -> None:
    runtime.close()
    with pytest.raises(DetectorError):
        runtime.run(np.zeros((1, 64, 64, 3), np.uint8))
