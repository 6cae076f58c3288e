"""P6: whatever the disk does, frames never wait for it, recording goes on by itself, and sidecars tell the truth."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edge.cameras import Retention
from edge.recordings.recovery import orphans, recover_camera
from edge.recordings.verify import verify
from tests.harness.disk import (
    block_disk,
    call,
    failing_disk,
    free_bytes,
    frozen,
    memory_disk,
    needs_root,
    take_all_but,
    unmount,
)
from tests.unit.recordings.cameras import FPS, Feed, camera, content, feed, segments, sidecar

pytestmark = needs_root

MEBI = 1 << 20
FLOOR = Retention(None, None, 2 * MEBI)
NO_FLOOR = Retention(None, None, 0)
# What a segment that could not be completed may have lost: a fragment, and what the encoder and the queue held.
LOST_FRAMES = FPS + 25
# A write that waited for the disk would take as long as the disk is away, which is seconds.
NEVER_S = 1.0


def reasons(root: Path) -> list[str]:
    """Of all gaps, in order."""
    return [gap["reason"] for file in segments(root) for gap in sidecar(file)["gaps"]]


def check(door: Feed, root: Path, failures: int = 0) -> None:
    """All files play and tell the truth; each frame is in one, counted as dropped, or what a failure may cost."""
    recover_camera(root / "door")
    assert list(orphans(root / "door")) == []
    assert {finding.kind for finding in verify(root)} <= ({"broken"} if failures else set())
    numbers: list[int] = []
    for file in segments(root):
        in_file, duration_s = content(file)
        assert len(in_file) == sidecar(file)["frames"]
        assert duration_s == pytest.approx(sidecar(file)["duration_s"], abs=0.002)
        numbers += in_file
    assert len(numbers) == len(set(numbers))
    missing = door.index - len(numbers) - door.recorder.dropped
    assert 0 <= missing <= failures * LOST_FRAMES
    assert door.slowest_s < NEVER_S


def test_recording_stops_at_the_floor_and_goes_on(tmp_path: Path) -> None:
    with memory_disk(tmp_path / "disk", 20 * MEBI) as disk:
        with feed(camera(disk, 1.0, retention=FLOOR)) as door:
            door.frames(FPS, noisy=True)
            ballast = take_all_but(disk, 2 * MEBI + 900_000)
            door.frames_until(lambda: door.recorder.paused == "disk full", noisy=True)
            door.frames(2 * FPS, noisy=True)
            assert free_bytes(disk) >= 2 * MEBI
            assert door.recorder.paused == "disk full"
            ballast.unlink()
            door.frames_until(lambda: not door.recorder.paused)
            door.frames(FPS)
        check(door, disk)
        assert "disk full" in reasons(disk)
        assert door.keys.count("recording-paused-disk-full") == door.keys.count("recording-resumed") == 1


def test_a_disk_that_others_fill_to_the_last_byte(tmp_path: Path) -> None:
    with memory_disk(tmp_path / "disk", 20 * MEBI) as disk:
        with feed(camera(disk, 1.0, retention=NO_FLOOR)) as door:
            door.frames(2 * FPS, noisy=True)
            ballast = take_all_but(disk, 0)
            door.frames_until(lambda: bool(door.recorder.paused), noisy=True)
            door.frames(FPS, noisy=True)
            ballast.unlink()
            door.frames_until(lambda: not door.recorder.paused)
            door.frames(FPS)
        check(door, disk, failures=2)
        assert {"disk full", "disk failed"} & set(reasons(disk))


def test_a_disk_that_becomes_read_only(tmp_path: Path) -> None:
    with memory_disk(tmp_path / "disk", 20 * MEBI) as disk:
        with feed(camera(disk, 1.0, retention=NO_FLOOR)) as door:
            door.frames(FPS + 10)
            call("mount", "--bind", disk, disk)
            call("mount", "-o", "remount,bind,ro", disk)
            try:
                door.frames_until(lambda: door.recorder.paused == "disk failed")
                door.frames(FPS)
                assert any("Read-only" in event.text for event in door.events)
            finally:
                unmount(disk)
            door.frames_until(lambda: not door.recorder.paused)
            door.frames(FPS)
        check(door, disk)
        assert "disk failed" in reasons(disk)


def test_a_disk_that_is_taken_away(tmp_path: Path) -> None:
    """Below its mount point there is another disk, into which nothing may be written."""
    with block_disk(tmp_path / "disk", 32 * MEBI) as disk:
        with feed(camera(disk, 1.0, retention=NO_FLOOR)) as door:
            door.frames(2 * FPS)
            unmount(disk)
            door.frames_until(lambda: door.recorder.paused == "disk failed")
            door.frames(FPS)
            assert list(disk.iterdir()) == []
            assert any("its file system is gone" in event.text for event in door.events)
            call("mount", "-o", "loop", tmp_path / "disk.img", disk)
            door.frames_until(lambda: not door.recorder.paused)
            door.frames(FPS)
        check(door, disk, failures=1)


def test_another_disk_in_its_place_is_not_used(tmp_path: Path) -> None:
    with memory_disk(tmp_path / "disk", 20 * MEBI) as disk:
        with feed(camera(disk, 1.0, retention=NO_FLOOR)) as door:
            door.frames(FPS)
            with memory_disk(disk, 4 * MEBI):
                door.frames_until(lambda: door.recorder.paused == "disk failed")
                door.frames(4 * FPS, pace=1.0)      # longer than it takes to try again
                assert list(disk.iterdir()) == []
            door.frames_until(lambda: not door.recorder.paused)
        check(door, disk, failures=1)


def test_a_disk_that_hangs(tmp_path: Path) -> None:
    with block_disk(tmp_path / "disk", 32 * MEBI) as disk:
        with feed(camera(disk, 1.0, retention=NO_FLOOR)) as door:
            door.frames(2 * FPS)
            with frozen(disk):
                door.frames_until(lambda: door.recorder.paused == "disk slow")
                door.frames(2 * FPS)
            door.frames_until(lambda: not door.recorder.paused)
            door.frames(FPS)
        check(door, disk)
        assert "disk slow" in reasons(disk)


def test_a_disk_that_hangs_when_the_camera_stops(tmp_path: Path) -> None:
    with block_disk(tmp_path / "disk", 32 * MEBI) as disk:
        with feed(camera(disk, 60.0, retention=NO_FLOOR)) as door:
            door.frames(2 * FPS)
            with frozen(disk):
                door.frames(FPS)
                began_s = time.monotonic()
                assert not door.recorder.close(1.0)
                assert time.monotonic() - began_s < 10
        check(door, disk, failures=1)


@contextmanager
def hanging_now_and_then(disk: Path, hangs_s: float, answers_s: float) -> Iterator[None]:
    stopped = threading.Event()

    def hang() -> None:
        while not stopped.is_set():
            with frozen(disk):
                stopped.wait(hangs_s)
            stopped.wait(answers_s)

    thread = threading.Thread(target=hang)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def test_a_slow_disk(tmp_path: Path) -> None:
    with block_disk(tmp_path / "disk", 32 * MEBI) as disk:
        with feed(camera(disk, 1.0, retention=NO_FLOOR)) as door:
            with hanging_now_and_then(disk, 0.7, 0.1):
                door.frames(6 * FPS, noisy=True)
            door.frames(FPS)
        check(door, disk)


def test_a_disk_that_fails(tmp_path: Path) -> None:
    """Data is taken, and lost when the kernel writes it: only a sync tells."""
    with failing_disk(tmp_path / "disk", 64 * MEBI) as disk:
        with feed(camera(disk.root, 60.0, retention=NO_FLOOR)) as door:
            door.frames(2 * FPS, noisy=True)
            disk.fail()
            door.frames_until(lambda: door.recorder.paused == "disk failed", noisy=True)
            disk.heal()
            door.frames_until(lambda: not door.recorder.paused, noisy=True)
            door.frames(FPS)
        check(door, disk.root, failures=2)
        assert "disk failed" in reasons(disk.root)
