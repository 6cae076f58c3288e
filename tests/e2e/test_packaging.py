"""What a wheel of this project holds: the packages, the model descriptions and the licence, and nothing else."""

from __future__ import annotations

import configparser
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names in a wheel that is built from a copy of the source, so that nothing is left in this folder."""
    folder = tmp_path_factory.mktemp("wheel")
    names = ["setup.cfg", "pyproject.toml", "README.md", "LICENSE", "edge", "calibration", "build_engines", "configs"]
    present = [name for name in [*names, "tests"] if (ROOT / name).exists()]
    subprocess.run(["cp", "-r", *present, str(folder)], cwd=ROOT, check=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next((folder / "dist").glob("*.whl"))) as archive:
        return archive.namelist()


def test_holds_every_module_and_model_description(wheel: list[str]) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "edge").rglob("*.py")}
    assert modules - set(wheel) == set()
    installed = {Path(name).name for name in wheel if "data/share/edge/models/" in name}
    assert installed == {path.name for path in (ROOT / "configs" / "models").glob("*.yaml")} != set()
    assert any(name.endswith("LICENSE") for name in wheel)


def test_holds_nothing_else(wheel: list[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if ".dist-info" not in top and ".data" not in top} <= {
        "edge",
        "calibration",
        "build_engines",
    }


def test_every_program_starts() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options.entry_points"]["console_scripts"].strip().splitlines()
    for program in (line.split("=")[0].strip() for line in lines):
        command = [str(Path(sys.executable).parent / program), "--help"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{program}: {done.stderr}"
        assert done.stdout.startswith(f"usage: {program}")
