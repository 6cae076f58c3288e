"""Whatever moment a process dies at: all files play, none is without a sidecar, the chain holds."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from edge.recordings.chain import Chain
from edge.recordings.names import draft_of, sidecar_of
from edge.recordings.recovery import orphans, recover_camera, recover_part
from edge.recordings.verify import verify
from edge.storage import part_path, whole_fragments_bytes
from tests.unit.recordings.cameras import FPS, camera, content, feed, segments, sidecar, wait_until


def left_unfinished(root: Path, frames: int = 60, gap_s: float = 0.0) -> Path:
    """The `.part` of a recorder that was aborted."""
    with feed(camera(root, segment_s=600)) as door:
        door.frames(frames, pace=0.5)
        if gap_s:
            door.recorder.gap("source lost")
            time.sleep(gap_s)
            door.frames(1)
            time.sleep(1.3)         # what is known is noted once a second
        wait_until(lambda: any(plays(part) for part in orphans(root / "door")))
        door.recorder.abort()
    (part,) = orphans(root / "door")
    return part


def plays(part: Path) -> bool:
    with part.open("rb") as file:
        return whole_fragments_bytes(file) > 0 and draft_of(part.with_suffix("")).exists()


def test_a_part_becomes_a_segment_with_a_sidecar(tmp_path: Path) -> None:
    part = left_unfinished(tmp_path)
    (outcome,) = recover_camera(tmp_path / "door")
    assert outcome.kind == "recovered"
    (segment,) = segments(tmp_path)
    assert segment == outcome.path
    assert segment.name == part.name.replace(".mp4.part", "_recovered.mp4")
    told, (numbers, duration_s) = sidecar(segment), content(segment)
    assert told["recovered"] is True
    assert told["frames"] == len(numbers) >= FPS
    assert told["duration_s"] == pytest.approx(duration_s, abs=0.001)
    assert told["model"] == "yunet"                 # from the draft
    assert told["faces"] is None
    assert [(gap["reason"], gap["duration_s"]) for gap in told["gaps"]] == [("interrupted", None)]
    assert told["gaps"][0]["start_utc"] == told["end_utc"]
    assert verify(tmp_path) == []
    assert not draft_of(segment).exists()
    assert recover_camera(tmp_path / "door") == []


def test_the_gap_before_a_segment_survives_it(tmp_path: Path) -> None:
    left_unfinished(tmp_path, gap_s=0.5)
    recover_camera(tmp_path / "door")
    told = sidecar(segments(tmp_path)[0])
    assert [gap["reason"] for gap in told["gaps"]] == ["source lost", "interrupted"]


@pytest.mark.parametrize("draft", [None, b"", b"[]", b'{"gaps": 3, "start_utc": 5, "source": "rtsp://c"}', b"\xff{"])
def test_a_part_without_a_good_draft(tmp_path: Path, draft: bytes | None) -> None:
    part = left_unfinished(tmp_path)
    place = draft_of(part.with_suffix(""))
    place.unlink()
    if draft is not None:
        place.write_bytes(draft)
    recover_camera(tmp_path / "door")
    told = sidecar(segments(tmp_path)[0])
    assert told["start_utc"] == f"{told['start_utc'][:19]}.000Z"        # from the name
    assert verify(tmp_path) == []


@pytest.mark.parametrize("keep_bytes", [1, 40, 500])
def test_a_part_that_holds_no_fragment_is_set_aside(tmp_path: Path, keep_bytes: int) -> None:
    part = left_unfinished(tmp_path)
    os.truncate(part, keep_bytes)
    outcomes = recover_camera(tmp_path / "door")
    if keep_bytes < 12:       # too short to know that it is ours
        assert outcomes == []
        return
    assert [outcome.kind for outcome in outcomes] == ["broken"]
    assert part.with_name(part.name + ".broken").exists()
    assert [finding.kind for finding in verify(tmp_path)] == ["broken"]


def test_an_empty_part_is_removed(tmp_path: Path) -> None:
    part = left_unfinished(tmp_path)
    os.truncate(part, 0)
    assert [outcome.kind for outcome in recover_camera(tmp_path / "door")] == ["empty"]
    assert not part.exists()


def test_a_part_that_is_written_is_left_alone(tmp_path: Path) -> None:
    with feed(camera(tmp_path, segment_s=600)) as door:
        door.frames(FPS)
        assert recover_camera(tmp_path / "door") == []
        door.frames(FPS)
    assert [sidecar(file)["frames"] for file in segments(tmp_path)] == [2 * FPS]


def test_killed_between_the_sidecar_and_the_name(tmp_path: Path) -> None:
    with feed(camera(tmp_path, segment_s=600)) as door:
        door.frames(FPS)
    (segment,) = segments(tmp_path)
    segment.rename(part_path(segment))
    assert [outcome.kind for outcome in recover_camera(tmp_path / "door")] == ["finished"]
    assert segments(tmp_path) == [segment]
    assert verify(tmp_path) == []


def test_killed_between_the_chain_and_the_sidecar(tmp_path: Path) -> None:
    for _ in range(2):
        with feed(camera(tmp_path, segment_s=600)) as door:
            door.frames(FPS)
    first, second = segments(tmp_path)
    second.rename(part_path(second))
    sidecar_of(second).unlink()
    links = [{"sequence": number, "sidecar": f"{file.parent.name}/{file.stem}.json", "sha256": "0" * 64}
             for number, file in enumerate((first, second), 1)]
    links[0]["sha256"] = hashlib.sha256(sidecar_of(first).read_bytes()).hexdigest()
    (tmp_path / "door" / "chain.json").write_text(json.dumps({"previous": links[0], "next": links[1], "deleted": []}))
    assert [outcome.kind for outcome in recover_camera(tmp_path / "door")] == ["recovered"]
    assert [sidecar(file)["sequence"] for file in segments(tmp_path)] == [1, 2]
    assert verify(tmp_path) == []


def test_links_and_other_files_are_left_alone(tmp_path: Path) -> None:
    day = tmp_path / "door" / "2026-01-01"
    day.mkdir(parents=True)
    victim = tmp_path / "victim.mp4"
    victim.write_bytes(b"\0\0\0\x20ftypmp42" + b"x" * 100)
    (day / "door_20260101T000000Z.mp4.part").symlink_to(victim)
    (day / "door_20260101T000001Z.mp4.part").mkdir()
    (day / "door_20260101T000002Z.mp4.part").hardlink_to(victim)
    (day / "door_20260101T000003Z.mp4.part").write_bytes(b"another program's")
    os.mkfifo(day / "door_20260101T000004Z.mp4.part")
    (tmp_path / "door" / "2026-01-02").symlink_to(day)
    before = sorted(path.name for path in day.iterdir())
    assert recover_camera(tmp_path / "door") == []
    assert sorted(path.name for path in day.iterdir()) == before
    assert victim.stat().st_size == 112
    assert recover_part(day / "none.mp4.part", Chain(tmp_path / "door")) is None
