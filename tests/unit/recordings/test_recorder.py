"""Segments join without a lost frame, tell the truth in their sidecars, and nothing waits for the disk."""

from __future__ import annotations

import dataclasses
import itertools
import re
import stat
import time
from pathlib import Path

import cv2
import pytest

from edge.errors import UnsafeFrameError
from edge.recordings.clock import utc_of
from edge.recordings.queue import MAX_FRAMES
from edge.recordings.verify import verify
from tests.unit.recordings.cameras import FPS, ManualClock, camera, content, feed, safe, segments, sidecar


def test_segments_join_without_a_lost_frame(tmp_path: Path) -> None:
    with feed(camera(tmp_path, segment_s=1.0)) as door:
        door.frames(4 * FPS + 5)
    files = segments(tmp_path)
    counts = [sidecar(file)["frames"] for file in files]
    assert 3 <= len(counts) <= 5            # longer ones where the disk is slow
    assert min(counts[:-1]) >= FPS
    assert list(itertools.chain(*(content(file)[0] for file in files))) == list(range(105))
    for file in files:
        assert content(file)[1] == pytest.approx(sidecar(file)["duration_s"], abs=0.001)
    assert [sidecar(file)["duration_s"] for file in files] == [pytest.approx(count / FPS) for count in counts]
    assert door.recorder.dropped == 0
    assert door.recorder.segments == len(files)
    assert door.recorder.bytes_written == sum(file.stat().st_size for file in files)
    assert verify(tmp_path) == []


def test_what_is_on_disk(tmp_path: Path) -> None:
    with feed(camera(tmp_path), ManualClock(utc_of("2026-03-04T23:59:59.900Z"))) as door:
        door.frames(30, pace=1.0)
    found = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*") if path.is_file()]
    names = sorted(re.sub(r"T00000\dZ", "T000000Z", name) for name in found)       # some seconds, on a busy machine
    assert names == [
        ".edge-recordings", "door/2026-03-04/door_20260304T235959Z.json", "door/2026-03-04/door_20260304T235959Z.mp4",
        "door/2026-03-05/door_20260305T000000Z.json", "door/2026-03-05/door_20260305T000000Z.mp4", "door/chain.json",
        "door/chain.lock",
    ]  # fmt: skip
    for path in (tmp_path / "door").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & ~(0o750 if path.is_dir() else 0o640) == 0, f"{path} {mode:o}"


def test_what_a_sidecar_says(tmp_path: Path) -> None:
    with feed(camera(tmp_path, segment_s=10)) as door:
        door.frames(10, pace=0.1)
        door.frames(5, pace=0.1, whole="damaged")
        door.recorder.drop("late", 3)
        door.frames(1, pace=0.1)
    (file,) = segments(tmp_path)
    told = sidecar(file)
    assert told["schema"] == told["sequence"] == 1
    assert told["previous"] is None
    assert told["camera"] == "door"
    assert told["source"] == "rtsp://camera/1"
    assert (told["frames"], told["faces"], told["tracks"]) == (16, 0, 0)
    assert told["whole_frames"] == {"damaged": 5}
    assert told["masked_share"] == pytest.approx(5 / 16, abs=1e-5)
    assert told["dropped"] == {"late": 3}
    assert (told["width_px"], told["height_px"], told["codec"]) == (160, 96, "h264")
    assert (told["model"], told["model_sha256"], told["config_sha256"]) == ("yunet", "ab" * 32, "cd" * 32)
    assert told["recovered"] is False
    assert told["segment"]["bytes"] == file.stat().st_size
    assert [gap["reason"] for gap in told["gaps"]] == ["stopped"]
    assert told["gaps"][0]["duration_s"] is None


def test_anything_but_a_safe_frame_is_refused(tmp_path: Path) -> None:
    with feed(camera(tmp_path)) as door:
        frame, hidden = safe(0)
        with pytest.raises(UnsafeFrameError):
            door.recorder.write(frame)  # type: ignore[arg-type]
        hidden.take()
        with pytest.raises(UnsafeFrameError):
            door.recorder.write(hidden)
    assert segments(tmp_path) == []


@pytest.mark.parametrize(
    ("second", "model"),
    [({"epoch": 1}, ""), ({"width": 320}, ""), ({"pts_ns": 9_000_000_000}, ""), ({}, "another")],
    ids=["epoch", "size", "jump in time", "model"],
)
def test_another_stream_is_another_segment(tmp_path: Path, second: dict[str, int], model: str) -> None:
    with feed(camera(tmp_path, segment_s=60)) as door:
        door.frames(5, pace=0.1)
        if model:
            time.sleep(0.3)
            door.recorder.provenance = dataclasses.replace(door.recorder.provenance, model_sha256=model)
        door.frames(1, pace=0.1, **second)
    assert [sidecar(file)["frames"] for file in segments(tmp_path)] == [5, 1]
    assert verify(tmp_path) == []


@pytest.mark.parametrize("step_s", [-3600.0, 7.0, 86400.0 * 365])
def test_a_clock_that_is_set(tmp_path: Path, step_s: float) -> None:
    clock = ManualClock()
    with feed(camera(tmp_path, segment_s=60), clock) as door:
        door.frames(10, pace=1.0)
        clock.offset_s += step_s
        door.frames(10, pace=1.0)
    first, second = (sidecar(file) for file in segments(tmp_path))
    assert first["frames"] + second["frames"] == 20
    moved_s = utc_of(second["start_utc"]) - utc_of(first["start_utc"])
    assert moved_s == pytest.approx(step_s + first["duration_s"], abs=3.0)
    assert door.keys == ["clock-stepped"]
    assert not [gap for gap in second["gaps"] if gap["duration_s"]]     # nothing was missed


def test_a_small_correction_of_the_clock_is_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    with feed(camera(tmp_path, segment_s=60), clock) as door:
        door.frames(5, pace=0.2)
        clock.offset_s -= 3
        door.frames(5, pace=0.2)
    assert len(segments(tmp_path)) == 1
    assert door.keys == []


def test_names_that_are_taken(tmp_path: Path) -> None:
    clock = ManualClock()
    with feed(camera(tmp_path, segment_s=60), clock) as door:
        for epoch in range(4):
            clock.offset_s = 1_780_000_000.2 - time.monotonic()
            door.frames(2, pace=0.2, epoch=epoch)
            time.sleep(0.2)
    stems = [file.stem.removeprefix("door_20260528T") for file in segments(tmp_path)]
    assert stems == ["202640Z", "202640Z_2", "202640Z_3", "202640Z_4"]


def test_gaps_are_told(tmp_path: Path) -> None:
    with feed(camera(tmp_path, segment_s=60)) as door:
        door.frames(10)
        door.recorder.gap("source lost")
        door.recorder.end_segment()
        time.sleep(0.7)
        door.frames(10, epoch=1)
        door.recorder.gap("overload")
        door.recorder.gap("overload")
        time.sleep(0.5)
        door.frames(3, epoch=1)
    first, second = (sidecar(file) for file in segments(tmp_path))
    assert [(gap["reason"], gap["duration_s"]) for gap in first["gaps"]] == [("source lost", None)]
    assert [gap["reason"] for gap in second["gaps"]] == ["source lost", "overload", "stopped"]
    lasted_s = [gap["duration_s"] for gap in second["gaps"][:2]]
    assert 0.6 < lasted_s[0] < 4
    assert 0.4 < lasted_s[1] < 4
    assert abs(utc_of(second["gaps"][0]["start_utc"]) - utc_of(first["end_utc"])) < 2


def test_a_source_that_pauses_unnoticed(tmp_path: Path) -> None:
    with feed(camera(tmp_path, segment_s=60)) as door:
        door.frames(5)
        door.index += 5 * FPS
        door.frames(5)
    first, second = (sidecar(file) for file in segments(tmp_path))
    assert first["duration_s"] == second["duration_s"] == 0.2
    assert [(gap["reason"], gap["duration_s"]) for gap in second["gaps"]] == [("no frames", 5.0), ("stopped", None)]


def test_the_time_between_two_processes_is_a_gap(tmp_path: Path) -> None:
    clock = ManualClock()
    with feed(camera(tmp_path), clock) as door:
        door.frames(5)
    clock.offset_s += 100
    with feed(camera(tmp_path), clock) as door:
        door.frames(5)
    first, second = (sidecar(file) for file in segments(tmp_path))
    assert second["previous"]["sidecar"].endswith(segments(tmp_path)[0].with_suffix(".json").name)
    assert second["gaps"][0]["reason"] == "not running"
    assert second["gaps"][0]["duration_s"] == pytest.approx(100, abs=10)
    assert second["gaps"][0]["start_utc"] == first["end_utc"]


def test_a_snapshot(tmp_path: Path) -> None:
    with feed(camera(tmp_path, snapshot_s=0.3)) as door:
        door.frames(10)
        picture = tmp_path / "door" / "snapshot.jpg"
        first = picture.read_bytes()
        assert cv2.imread(str(picture)).shape == (96, 160, 3)
        door.frames(15)
        assert picture.read_bytes() != first
    assert verify(tmp_path) == []


def test_frames_are_given_back_and_never_pile_up(tmp_path: Path) -> None:
    """The disk does not answer: the queue fills, the rest is dropped at once, and all memory comes back."""
    released: list[int] = []
    with feed(camera(tmp_path, segment_s=60)) as door:
        door.frames(2)
        door.recorder._writer.finisher.do(lambda: time.sleep(2.0))      # both segments wait for this
        door.recorder.end_segment()
        door.frames(1, epoch=1)
        door.recorder.end_segment()
        for number in range(3 * MAX_FRAMES):
            _, hidden = safe(100 + number, epoch=2, release=lambda number=number: released.append(number))
            began_s = time.monotonic()
            door.recorder.write(hidden)
            assert time.monotonic() - began_s < 1.0
        dropped = door.recorder.dropped
        assert 2 * MAX_FRAMES - 1 <= dropped <= 2 * MAX_FRAMES
        time.sleep(2.2)
    assert sorted(set(released)) == list(range(3 * MAX_FRAMES))
    last = sidecar(segments(tmp_path)[-1])
    assert last["frames"] + dropped == 3 * MAX_FRAMES
    assert last["dropped"] == {"overload": dropped}


def test_rotation_costs_little(tmp_path: Path) -> None:
    with feed(camera(tmp_path, segment_s=0.4)) as door:
        door.frames(3 * FPS)
    assert len(segments(tmp_path)) >= 4     # 8 where the disk is quick
    assert door.slowest_s < 0.5
    assert door.recorder.dropped == 0


def test_an_abort_leaves_what_can_be_recovered(tmp_path: Path) -> None:
    settings = camera(tmp_path, segment_s=60)
    with feed(settings) as door:
        door.frames(2 * FPS)
        door.recorder.abort()
    parts = list((tmp_path / "door").glob("*/*.mp4.part"))
    assert len(parts) == 1
    with feed(settings) as door:
        assert door.wait_for("recording-recovered")
        door.frames(2)
    first, second = segments(tmp_path)
    assert content(first)[0][:FPS] == list(range(FPS))
    assert sidecar(first)["recovered"]
    assert sidecar(second)["sequence"] == 2
    assert verify(tmp_path) == []
