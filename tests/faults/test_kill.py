"""P2 and P3: a kill costs at most a fragment, nothing unmasked is on disk, and the next run cleans up."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness.oracle import frames, sights, visible
from tests.harness.sample import FPS, face_box

# A fragment (1 s) that was not yet whole, and what the encoder still held: look-ahead, threads and queue.
LOST_FRAMES = FPS + 25


def start(sample: Path, output: Path, model: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "edge.cli.run", str(sample), "-o", str(output), "--json", "--model", str(model)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def kill_at(process: subprocess.Popen[str], frame: int, whom: str) -> int:
    """Kill the worker, or everything, as soon as `frame` frames are reported; the number that was reported."""
    assert process.stdout is not None
    written = 0
    for line in process.stdout:
        event = json.loads(line)
        written = event["frames"] if event["event"] == "progress" else written
        if written >= frame:
            break
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    if whom == "everything":
        process.kill()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    process.stdout.read()
    process.wait(20)
    process.stdout.close()
    return written


def check_leftover(sample: Path, output: Path, model: Path, written: int) -> None:
    assert not output.exists()
    part = output.with_name(output.name + ".part")
    assert part.exists()
    process = start(sample, output, model)      # the next run
    assert process.communicate()[0]
    assert process.returncode == 0
    assert not part.exists()
    assert sum(1 for _ in frames(output)) == 300
    recovered = output.with_name(f"{output.stem}_recovered.mp4")
    if written > LOST_FRAMES:
        assert sum(1 for _ in frames(recovered)) >= written - LOST_FRAMES
        assert visible(sample, recovered, face_box) == []
        assert written < 150 or sights(sample, recovered, face_box)


@pytest.mark.parametrize(("frame", "whom"), [(60, "worker"), (140, "everything"), (220, "everything")])
def test_a_kill_costs_at_most_a_fragment(
    sample: Path, default_model: Path, tmp_path: Path, frame: int, whom: str
) -> None:
    output = tmp_path / "out.mp4"
    process = start(sample, output, default_model)
    written = kill_at(process, frame, whom)
    if whom == "worker":
        assert process.returncode == 1
    check_leftover(sample, output, default_model, written)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_kills_at_random_moments(sample: Path, default_model: Path, tmp_path: Path) -> None:
    chance = random.Random(5)
    for number in range(10):
        output = tmp_path / f"out{number}.mp4"
        process = start(sample, output, default_model)
        written = kill_at(process, chance.randrange(20, 280), chance.choice(["worker", "everything"]))
        check_leftover(sample, output, default_model, written)


def test_nobody_is_left_when_the_command_dies(sample: Path, default_model: Path, tmp_path: Path) -> None:
    process = start(sample, tmp_path / "out.mp4", default_model)
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["event"] != "progress":
        pass
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    process.kill()
    process.wait(10)
    process.stdout.close()
    deadline_s = time.monotonic() + 5
    while any(is_alive(child) for child in children) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not any(is_alive(child) for child in children)


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
