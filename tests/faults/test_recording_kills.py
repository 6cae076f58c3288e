"""P2 and P3: whatever moment a camera or the keeper is killed at, files play, sidecars are true, the chain holds."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from edge.recordings.recovery import orphans, recover_camera
from edge.recordings.verify import verify
from tests.unit.recordings.archive import DAY_S, add_segment, names
from tests.unit.recordings.cameras import FPS, content, segments, sidecar, wait_until

ROOT = Path(__file__).parents[2]
# What a kill may cost: a fragment that was not whole, and what the queue, the encoder and the muxer still held.
LOST_FRAMES = FPS + 25
AHEAD = 40      # frames that a process may have got further than was read from it

CAMERA = """
import sys
from pathlib import Path
from tests.unit.recordings.cameras import camera, feed
with feed(camera(Path(sys.argv[1]), segment_s=float(sys.argv[3]))) as door:
    door.index = int(sys.argv[2])
    for _ in range(100000):
        door.frames(1)
        print(door.index, flush=True)
"""
KEEPER = """
import sys
from pathlib import Path
from edge.cameras import Retention
from edge.recordings.clock import SystemClock
from edge.recordings.root_keeper import RootKeeper
from tests.unit.recordings.cameras import camera
root = Path(sys.argv[1])
settings = camera(root, retention=Retention(None, 0, 0))
RootKeeper(root, (settings,), lambda event: None, SystemClock())._thread.join()
"""


def start(program: str, *words: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    assert process.stdout is not None
    process.stdout.close()
    process.wait()


def record_and_kill(root: Path, first: int, frames: int, moment_s: float, segment_s: float) -> int:
    """Record in another process until so many frames were handed over and a moment longer; number of the last one."""
    child, last = start(CAMERA, root, first, str(segment_s)), first
    assert child.stdout is not None
    try:
        for line in child.stdout:
            last = int(line)
            if last >= first + frames:
                break
        time.sleep(moment_s)
    finally:
        kill(child)
    return last


def check(root: Path, runs: list[range]) -> list[int]:
    """All files play, sidecars tell the truth, and of each run at most the end is missing: how much, for each."""
    assert list(orphans(root / "door")) == []
    assert {finding.kind for finding in verify(root)} <= {"broken"}     # those killed within their first second
    frames: list[int] = []
    for file in segments(root):
        numbers, duration_s = content(file)
        assert len(numbers) == sidecar(file)["frames"]
        assert duration_s == pytest.approx(sidecar(file)["duration_s"], abs=0.002)
        frames += numbers
    assert len(frames) == len(set(frames))
    costs = []
    for run in runs:
        written = sorted(number for number in frames if run.start <= number < run.stop + AHEAD)
        assert written == list(range(run.start, run.start + len(written)))      # no hole in the middle
        costs.append(len(run) - len(written))
    assert max(costs) <= LOST_FRAMES
    return costs


def kills(root: Path, times: int, seed: int) -> None:
    chance, runs, first = random.Random(seed), [], 0
    for _ in range(times):
        frames, moment_s, segment_s = chance.randrange(3, 100), chance.uniform(0, 1 / FPS), chance.choice([1.5, 600])
        last = record_and_kill(root, first, frames, moment_s, segment_s)
        runs.append(range(first, last))
        first = last + AHEAD
    recover_camera(root / "door")
    costs = check(root, runs)
    files = Counter("recovered" if sidecar(file)["recovered"] else "finished" for file in segments(root))
    print(f"{times} kills: {dict(files)}, {len(list(root.rglob('*.broken')))} set aside; "
          f"frames lost: median {sorted(costs)[times // 2]}, at most {max(costs)}")  # fmt: skip


def test_a_camera_that_is_killed(tmp_path: Path) -> None:
    kills(tmp_path, 8, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_camera_that_is_killed_a_hundred_times(tmp_path: Path) -> None:
    kills(tmp_path, 100, seed=2)


def test_a_keeper_that_is_killed_while_it_deletes(tmp_path: Path) -> None:
    (tmp_path / ".edge-recordings").touch()
    now_s, left = time.time(), [200]
    for number in range(200):
        add_segment(tmp_path, "door", now_s - 9 * DAY_S + 1000 * number)
    while left[-1] > 0 and len(left) < 7:
        child = start(KEEPER, tmp_path)
        try:
            wait_until(lambda: len(names(tmp_path)) < left[-1])
        finally:
            kill(child)
        left.append(len(names(tmp_path)))
        assert verify(tmp_path) == []
    print(f"segments left: {left}")
    last = add_segment(tmp_path, "door", now_s)
    assert verify(tmp_path) == []
    assert sidecar(last)["sequence"] == 201
