"""Whatever a folder holds, edge-run ends with a file or one line, and shows nothing that a terminal would obey."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.oracle import frames, visible
from tests.harness.sample import face_box


def run(*words: str | Path, timeout_s: float = 60) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "edge.cli.run", *map(str, words)]
    return subprocess.run(command, capture_output=True, timeout=timeout_s, check=False)


def check_shown(result: subprocess.CompletedProcess[bytes], lines: int | None = None) -> None:
    text = (result.stdout + result.stderr).decode()
    assert "Traceback" not in text
    assert all(line.isprintable() for line in text.splitlines())
    if lines is not None:
        final = [line for line in text.splitlines() if " of about " not in line]      # progress, on a slow machine
        assert len(final) == lines, text


@pytest.mark.parametrize(
    "name", [b"a b.mp4", b"new\nline.mp4", b"no\xfftext.mp4", b"esc\x1b[31m.mp4", "right\u202eto left.mp4".encode()]
)
def test_any_name_is_read_and_written(short_sample: Path, default_model: Path, tmp_path: Path, name: bytes) -> None:
    source = tmp_path / os.fsdecode(name)
    source.symlink_to(short_sample)
    output = tmp_path / "out" / source.name
    result = run(source, "-o", tmp_path / "out", "--scales", "320", "--keep-audio", "--model", default_model)
    assert result.returncode == 0, result.stderr
    check_shown(result, lines=4)
    (tmp_path / "plain.mp4").symlink_to(output)
    assert sum(1 for _ in frames(tmp_path / "plain.mp4")) == 125
    assert visible(short_sample, tmp_path / "plain.mp4", face_box) == []


def test_a_name_that_begins_with_a_dash(short_sample: Path, default_model: Path, tmp_path: Path) -> None:
    (tmp_path / "-q.mp4").symlink_to(short_sample)
    command = [sys.executable, "-m", "edge.cli.run", "--model", str(default_model), "--scales", "320", "--", "-q.mp4"]
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())}
    assert subprocess.run(command, cwd=tmp_path, env=environment, check=False).returncode == 0
    assert (tmp_path / "-q_anonymized.mp4").is_file()


def test_one_name_that_is_too_long_does_not_stop_a_folder(
    short_sample: Path, default_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / ("x" * 252 + ".ts")).symlink_to(short_sample)
    (folder / "a.mp4").symlink_to(short_sample)
    (folder / "z.mp4").symlink_to(short_sample)
    result = run(folder, "--model", default_model, "--scales", "320", "--json")
    assert result.returncode == 1
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["event"] for event in events if event["event"] in ("finished", "failed")] == [
        "finished", "failed", "finished",
    ]  # fmt: skip
    assert "File name too long" in result.stderr.decode()


@pytest.mark.parametrize("suffix", [".mp4", ".png"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "zero", "directory", "dangling", "loop"])
def test_what_is_no_file_is_refused_at_once(default_model: Path, tmp_path: Path, kind: str, suffix: str) -> None:
    path = tmp_path / f"in{suffix}"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to({"zero": "/dev/zero", "dangling": "nowhere", "loop": path.name}[kind])
    result = run(path, "-o", tmp_path / f"out{suffix}", "--model", default_model, "-q", timeout_s=20)
    assert result.returncode == (64 if kind == "directory" else 66)
    check_shown(result, lines=1)
    assert b"; " in result.stderr       # says what to do
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.name]


@pytest.mark.parametrize("link", ["itself", "symbolic", "hard"])
def test_an_input_is_never_its_own_output(sample: Path, tmp_path: Path, link: str) -> None:
    source, output = tmp_path / "in.mp4", tmp_path / "out.mp4"
    source.write_bytes(sample.read_bytes())
    if link == "symbolic":
        output.symlink_to(source)
    elif link == "hard":
        output.hardlink_to(source)
    else:
        output = source
    result = run(source, "-o", output, "--overwrite")
    assert result.returncode == 64
    check_shown(result, lines=1)
    assert source.read_bytes() == sample.read_bytes()


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", "-v >&- 2>&-"])
def test_without_anybody_to_talk_to(short_sample: Path, default_model: Path, tmp_path: Path, redirection: str) -> None:
    """Descriptors 0 to 2 are free then, and what is opened next gets them: no message may end up in a video."""
    output = tmp_path / "out.mp4"
    command = f'"$0" -m edge.cli.run "$1" -o "$2" --model "$3" --scales 320 {redirection}'
    words = ["sh", "-c", command, sys.executable, str(short_sample), str(output), str(default_model)]
    assert subprocess.run(words, timeout=60, capture_output=True, check=False).returncode == 0
    assert sum(1 for _ in frames(output)) == 125
    assert visible(short_sample, output, face_box) == []
