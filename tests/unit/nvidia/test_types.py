"""What we call exists in TensorRT 10, with these arguments: checked with the types of its own Python bindings."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STUBS = Path(sys.prefix) / "stubs"      # see tests/harness/setup.sh
CHECKED = ("edge/nvidia", "edge/inference", "build_engines/tensorrt_builder.py", "build_engines/tensorrt_cache.py")


def mended(text: str) -> str:
    """The stubs were generated, and hold some definitions that are no Python; each becomes one without arguments."""
    lines = text.splitlines()
    while True:
        try:
            ast.parse("\n".join(lines))
        except SyntaxError as error:
            at = (error.lineno or 1) - 1
            while not lines[at].lstrip().startswith("def "):
                at -= 1
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            lines[at] = f"{indent}def broken_{at}(self) -> None:"
        else:
            return "\n".join(lines)


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (STUBS / "tensorrt_bindings").is_dir():
        pytest.skip("the types of TensorRT are not here; tests/harness/setup.sh test gets them")
    place = tmp_path_factory.mktemp("stubs")
    for package in ("tensorrt", "tensorrt_bindings"):
        shutil.copytree(STUBS / package, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in place.rglob("*.pyi"):
        path.write_text(mended(path.read_text()))
    return place


def mypy(stubs: Path, *targets: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", f"--cache-dir={stubs / 'cache'}", "--config-file=setup.cfg", *targets],
        cwd=ROOT, env=os.environ | {"MYPYPATH": str(stubs)}, capture_output=True, text=True, check=False,
    )   # fmt: skip
    return done.stdout + done.stderr


def test_every_call_is_one_of_tensorrt_10(stubs: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from edge.nvidia.tensorrt_api import load_tensorrt\nload_tensorrt().builder().gone_in_10()\n")
    output = mypy(stubs, *CHECKED, str(wrong))
    assert [line for line in output.splitlines() if ": error:" in line] == [
        f'{wrong}:2: error: "Builder" has no attribute "gone_in_10"  [attr-defined]'
    ], output
