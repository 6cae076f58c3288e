"""P3 and P6 in small: a full or read-only disk is a clear error, and what was finished stays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.oracle import frames

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system: needs root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", place]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edge.cli.run", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@needs_root
def test_a_full_disk(sample: Path, default_model: Path, small_disk: Path) -> None:
    options = ("--model", default_model, "--quality", "10", "--scales", "320", "-q")
    short = run(sample, "-o", small_disk / "first.mp4", "--quality", "45", *options[:2], "-q")
    assert short.returncode == 0, short.stderr
    full = run(sample, "-o", small_disk / "second.mp4", *options)
    assert full.returncode == 74
    assert "disk full" in full.stderr
    assert full.stderr.count("\n") == 1
    assert not (small_disk / "second.mp4").exists()
    assert sum(1 for _ in frames(small_disk / "first.mp4")) == 300


@needs_root
def test_a_read_only_disk(sample: Path, default_model: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    result = run(sample, "-o", small_disk / "out.mp4", "--model", default_model, "-q")
    assert result.returncode == 74
    assert "ead-only" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("target", ["missing/out.mp4", "file/out.mp4"])
def test_a_folder_that_is_none(sample: Path, default_model: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_text("x")
    result = run(sample, "-o", tmp_path / target, "--model", default_model, "-q")
    if target.startswith("missing"):
        assert result.returncode == 0, result.stderr        # made, as for folders
    else:
        assert result.returncode == 74
        assert result.stderr.count("\n") == 1
