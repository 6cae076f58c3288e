"""Set-up: quick the second time, and when a step fails it says what to do. Failures are made with stand-in programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A bare copy of what set-up reads, in a folder with a space in its name, without .venv."""
    folder = tmp_path / "my work"
    (folder / "tests" / "harness").mkdir(parents=True)
    for name in ("Makefile", "setup.cfg", "pyproject.toml", "tests/harness/setup.sh"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def stand_in(folder: Path, name: str, script: str) -> None:
    """A program of that name in `folder`."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def set_up(checkout: Path, programs: Path, python: str = "/usr/bin/python3") -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "PYTHON": python}
    command = ["sh", str(checkout / "tests" / "harness" / "setup.sh"), "run"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=60, check=False)  # fmt: skip


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Stand-ins for a machine on which nothing is missing."""
    folder = tmp_path / "programs"
    folder.mkdir()
    stand_in(folder, "dpkg-query", "printf installed")
    stand_in(folder, "python-fine", 'case "$2" in *"%d.%d"*) echo 3.11 ;; *) echo "no venv here" >&2; exit 1 ;; esac')
    return folder


NOT_ROOT = "echo 1000"
MISSING = 'case "$3" in python3-gi) exit 1 ;; *) printf installed ;; esac'


@pytest.mark.parametrize(
    ("stand_ins", "says", "remedy"),
    [
        ({"dpkg-query": MISSING, "id": NOT_ROOT, "sudo": "exit 1"}, "wants a password: python3-gi", "apt-get install"),
        ({"dpkg-query": MISSING, "id": "echo 0", "apt-get": "exit 100"}, "not install: python3-gi", "no network?"),
        ({"python-old": "echo 3.8"}, "is Python 3.8", "JetPack 6"),
        ({"python-new": "echo 3.13"}, "is Python 3.13", "Debian 12"),
        ({}, "could not make .venv", "python3-venv"),
    ],
    ids=["sudo with password", "apt fails", "too old", "too new", "no venv"],
)  # fmt: skip
def test_a_failed_step_says_what_to_do(
    checkout: Path, programs: Path, stand_ins: dict[str, str], says: str, remedy: str
) -> None:
    for name, script in stand_ins.items():
        stand_in(programs, name, script)
    python = next((name for name in stand_ins if name.startswith("python")), "python-fine")
    done = set_up(checkout, programs, str(programs / python))
    assert done.returncode == 69
    assert says in done.stderr
    assert remedy in done.stderr


def test_no_sudo_at_all(checkout: Path, programs: Path) -> None:
    for name in ("sh", "dirname", "printf", "cat", "tr", "sed", "grep", "env"):
        (programs / name).symlink_to(Path("/bin") / name)
    stand_in(programs, "dpkg-query", MISSING)
    stand_in(programs, "id", NOT_ROOT)
    command = ["/bin/sh", str(checkout / "tests" / "harness" / "setup.sh"), "run"]
    done = subprocess.run(command, env={"PATH": str(programs)}, capture_output=True, text=True, timeout=60, check=False)
    # the script adds the sbin folders, which hold no sudo
    assert done.returncode == 69
    assert "there is no sudo: python3-gi" in done.stderr
    assert "as root, run: apt-get update && apt-get install --no-install-recommends python3-gi" in done.stderr


def test_pip_without_an_index_says_what_to_do_and_leaves_no_stamp(checkout: Path) -> None:
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/nonexistent", "EDGE_SYSTEM_PACKAGES": "skip"}
    done = subprocess.run(["make", "setup"], cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip could not install the project" in done.stderr
    assert "PIP_FIND_LINKS=FOLDER" in done.stderr
    assert not list((checkout / ".venv").glob("installed-*"))


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make as a person would, even when these tests were started by make."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(["make", *arguments], cwd=ROOT, env=environment, check=True, capture_output=True, text=True)


def test_the_second_time_is_quick() -> None:
    if not list((ROOT / ".venv").glob("installed-*")):
        pytest.skip("this environment was not made by make")
    make("setup-test")
    started_s = time.monotonic()
    done = make("setup-test")
    assert time.monotonic() - started_s < 5
    assert done.stdout == ""


def test_first_run_says_what_it_did(sample: Path) -> None:
    """Everything of `make run` after set-up: model, camera, edge-run, and a result with faces masked in it."""
    done = subprocess.run([sys.executable, "-m", "tests.harness.first_run"], cwd=ROOT, capture_output=True, text=True,
                          timeout=110, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(re.findall(r"^(\w+)  +(.+)$", done.stdout, re.MULTILINE))
    assert {"result", "faces", "speed", "model", "decoder", "encoder"} <= set(said)
    assert (ROOT / said["result"]).stat().st_size > 50_000
    counts = re.match(r"(\d+) masked in (\d+) frames", said["faces"])
    assert counts is not None
    assert int(counts[1]) > 20


def test_help_lists_every_target() -> None:
    done = make("help")
    targets = [line.split()[1] for line in done.stdout.splitlines()]
    assert targets == ["help", "setup", "run", "lint", "test", "bench", "install", "uninstall", "clean"]
