"""Retention deletes what it should, only that, and leaves a chain that can be checked."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from edge.cameras import Retention
from edge.recordings.chain import Chain
from edge.recordings.index import Index
from edge.recordings.names import sidecar_of
from edge.recordings.retention import Policies
from edge.recordings.root import Space
from edge.recordings.root_keeper import CLOCK_TRUST_S
from edge.recordings.verify import verify
from tests.harness.disk import memory_disk, needs_root
from tests.unit.recordings.archive import DAY_S, NOW_S, KeeperClock, add_segment, kept, names
from tests.unit.recordings.cameras import camera


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".edge-recordings").touch()
    return tmp_path


def test_what_is_too_old_goes(root: Path) -> None:
    for days in (9, 8, 7.2, 7.0001, 6.9, 1, 0):
        add_segment(root, "door", NOW_S - days * DAY_S, duration_s=3600)
    keeper = kept(root, max_age_s=7 * DAY_S)
    keeper.rounds()
    assert len(names(root)) == 4        # one began more than seven days ago, but did not end then
    assert verify(root) == []
    keeper.clock.later_s += DAY_S
    keeper.rounds()
    assert len(names(root)) == 2
    assert verify(root) == []
    assert keeper.keeper.report().deleted == 5


def test_what_is_beyond_the_size_goes(root: Path) -> None:
    for number in range(10):
        add_segment(root, "door", NOW_S + 60 * number, size_bytes=10_000)
        add_segment(root, "yard", NOW_S + 60 * number, size_bytes=10_000)
    kept(root, max_bytes=55_000).rounds()
    assert [name[:4] for name in names(root)] == ["door"] * 5 + ["yard"] * 10
    assert names(root)[0] == "door_20260528T203140Z.mp4"
    assert verify(root) == []


def test_old_and_broken_ones_of_a_camera_that_is_configured_no_more(root: Path) -> None:
    segment = add_segment(root, "attic", NOW_S - 9 * DAY_S)
    broken = segment.with_name("attic_20260101T000000Z.mp4.part.broken")
    broken.write_bytes(b"x")
    add_segment(root, "attic", NOW_S - DAY_S)
    kept(root, max_age_s=7 * DAY_S).rounds()
    assert not broken.exists()
    assert len(names(root)) == 1


def test_nothing_goes_by_a_clock_that_nobody_vouches_for(root: Path) -> None:
    add_segment(root, "door", NOW_S - DAY_S)
    keeper = kept(root, max_age_s=3600.0, clock=KeeperClock(synchronised=False))
    keeper.rounds()
    assert len(names(root)) == 1
    keeper.clock.later_s += CLOCK_TRUST_S
    keeper.rounds()
    assert names(root) == []
    add_segment(root, "door", NOW_S)
    keeper.clock.offset_s += 10 * 365 * DAY_S       # somebody sets it
    keeper.rounds(2)
    assert len(names(root)) == 1


def test_only_ours_is_deleted(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Everything here is old and beyond the size; all of it but one segment belongs to somebody else."""
    outside = tmp_path_factory.mktemp("outside")
    victim = outside / "door_20200101T000000Z.mp4"
    victim.write_bytes(b"precious")
    sidecar_of(victim).write_text('{"schema": 1}')
    ours = add_segment(root, "door", NOW_S - 400 * DAY_S)
    day = ours.parent
    keep = [victim, sidecar_of(victim)]
    for name, text in [
        ("holiday.mp4", "x"), ("door_20200101T000000Z.mp4", "no sidecar"),
        ("door_20200102T000000Z.mp4", "wrong sidecar"), ("door_20200102T000000Z.json", '{"schema": 1, "sequence": 9}'),
        ("door_20200103T000000Z.mp4", "another's"), ("yard_20200104T000000Z.mp4", "x"), ("door_x.mp4", "x"),
        ("door_20200105T000000Z.mp4", "no JSON"), ("door_20200105T000000Z.json", "\0"),
    ]:  # fmt: skip
        keep.append(day / name)
        keep[-1].write_text(text)
    stolen = sidecar_of(add_segment(root, "yard", NOW_S)).read_text()
    (day / "door_20200103T000000Z.json").write_text(stolen)
    (day / "door_20200106T000000Z.mp4").symlink_to(victim)
    (day / "door_20200106T000000Z.json").symlink_to(sidecar_of(victim))
    (root / "door" / "2020-01-01").symlink_to(outside)
    (root / "attic").symlink_to(outside)
    (outside / "2020-01-01").mkdir()
    kept(root, max_age_s=1.0, max_bytes=0).rounds(2)
    assert not ours.exists()
    assert all(path.exists() for path in keep), [path for path in keep if not path.exists()]
    assert (day / "door_20200106T000000Z.mp4").is_symlink()


def test_a_chain_with_its_middle_deleted_can_be_checked(root: Path) -> None:
    """A clock that was wrong for a while made some segments look old."""
    for number, days in enumerate((0, 1, 400, 401, 2, 3)):
        add_segment(root, "door", NOW_S - days * DAY_S + number)
    kept(root, max_age_s=30 * DAY_S).rounds()
    assert len(names(root)) == 4
    assert [(run.first, run.last) for run in Chain(root / "door").deleted()] == [(3, 4)]
    assert verify(root) == []
    add_segment(root, "door", NOW_S)
    assert verify(root) == []
    kept(root, max_bytes=0).rounds()
    assert names(root) == []
    assert [(run.first, run.last) for run in Chain(root / "door").deleted()] == [(1, 7)]
    segment = add_segment(root, "door", NOW_S + 5)
    assert Chain(root / "door").read(f"{segment.parent.name}/{segment.stem}.json").link.sequence == 8
    assert verify(root) == []


def test_what_crashes_left(root: Path) -> None:
    first = add_segment(root, "door", NOW_S)
    second = add_segment(root, "door", NOW_S + 60)
    chain = Chain(root / "door")
    with chain.locked():
        chain.forget([chain.read(f"{first.parent.name}/{first.stem}.json")])
    first.unlink()                      # killed between this and its sidecar
    old = [first.with_name(f".{first.stem}.json.part"), first.with_name("door_20200101T000000Z.json.part")]
    for path in old:
        path.touch()
        os.utime(path, (NOW_S - 7200, NOW_S - 7200))
    fresh = first.with_name("door_20260101T000000Z.json.part")
    fresh.touch()
    keeper = kept(root)
    keeper.clock.offset_s = 0           # file times are real
    keeper.clock.offset_s = time.time() - time.monotonic()
    keeper.rounds()
    assert sorted(path.name for path in first.parent.iterdir()) == sorted(
        [second.name, sidecar_of(second).name, fresh.name])


def test_empty_days_go(root: Path) -> None:
    add_segment(root, "door", NOW_S - 9 * DAY_S)
    add_segment(root, "door", NOW_S)
    keeper = kept(root, max_age_s=7 * DAY_S)
    keeper.rounds(2)
    assert [path.name for path in sorted((root / "door").glob("2*"))] == ["2026-05-28"]
    assert verify(root) == []


def test_the_index_sees_changes(root: Path) -> None:
    index = Index(root)
    list(index.refresh())
    assert index.segments == 0
    first = add_segment(root, "door", NOW_S, size_bytes=500)
    list(index.refresh())
    assert [entry.name for entry in index.oldest_first()] == [first.name]
    assert index.size_bytes == first.stat().st_size + sidecar_of(first).stat().st_size
    add_segment(root, "yard", NOW_S - 60)
    first.unlink()
    list(index.refresh())
    assert [entry.camera for entry in index.oldest_first()] == ["yard"]


@pytest.mark.parametrize(
    ("total", "pause", "resume", "goal"),
    [
        (64 << 30, 8 << 20, 16 << 20, 64 << 20),
        (20_000_000, 100_000, 200_000, 400_000),
        (1 << 40, 8 << 20, 16 << 20, 64 << 20),
    ],
)
def test_room_that_is_kept(total: int, pause: int, resume: int, goal: int) -> None:
    space = Space(0, total, 1000)
    assert space.pause_bytes == 1000 + pause
    assert space.resume_bytes == 1000 + resume
    assert space.goal_bytes(0) == 1000 + goal
    assert space.goal_bytes(1 << 50) == 1000 + max(total // 100, goal)      # at most a hundredth of the disk


def test_policies() -> None:
    root = Path("/x")
    policies = Policies.of((camera(root, retention=Retention(10.0, None, 5)),
                            camera(root, name="yard", retention=Retention(20.0, 7, 3))))
    assert policies.floor_bytes == 5
    assert policies.of_camera("yard").max_bytes == 7
    assert policies.of_camera("gone") == Retention(20.0, None, 5)
    forever = Policies.of((camera(root, retention=Retention(None)), camera(root, name="b", retention=Retention(1.0))))
    assert forever.others.max_age_s is None


@needs_root
def test_the_floor_holds(tmp_path: Path) -> None:
    with memory_disk(tmp_path / "disk", 10 << 20) as disk:
        (disk / ".edge-recordings").touch()
        keeper = kept(disk, min_free_bytes=2 << 20)
        for number in range(20):
            add_segment(disk, "yard" if number % 2 else "door", NOW_S + 60 * number, size_bytes=500_000)
            keeper.rounds()
            facts = os.statvfs(disk)
            assert facts.f_bavail * facts.f_frsize >= 2 << 20
        left = names(disk)
        assert 10 <= len(left) < 20
        assert {name[:4] for name in left} == {"door", "yard"}
        assert max(names(disk)) == "yard_20260528T204540Z.mp4"
        assert verify(disk) == []
        assert keeper.keeper.report().state == "ok"


@needs_root
def test_deleting_stops_where_it_frees_nothing(tmp_path: Path) -> None:
    with memory_disk(tmp_path / "disk", 10 << 20) as disk:
        (disk / ".edge-recordings").touch()
        files = [add_segment(disk, "door", NOW_S + 60 * number, size_bytes=500_000).open("rb") for number in range(17)]
        keeper = kept(disk, min_free_bytes=2 << 20)
        try:
            keeper.rounds(20, apart_s=1.5)
            left = len(names(disk))
            assert left >= 12                   # not all of them
            assert keeper.keeper.report().state == "low"
            assert "hold deleted files open" in keeper.keeper.report().detail
        finally:
            for file in files:
                file.close()
        keeper.rounds(3)
        assert keeper.keeper.report().state == "ok"
        assert len(names(disk)) == left


@needs_root
def test_a_disk_filled_by_others(tmp_path: Path) -> None:
    with memory_disk(tmp_path / "disk", 10 << 20) as disk:
        (disk / ".edge-recordings").touch()
        add_segment(disk, "door", NOW_S, size_bytes=100_000)
        keeper = kept(disk, min_free_bytes=2 << 20)
        (disk / "other").write_bytes(b"x" * (9 << 20))
        keeper.rounds(8, apart_s=6)
        assert keeper.keeper.report().state == "low"
        assert names(disk) == []
        assert (disk / "other").exists()
        (disk / "other").unlink()
        keeper.rounds()
        assert keeper.keeper.report().state == "ok"
        assert [event.key for event in keeper.events if event.subject == "keeper"] == ["root-low", "root-ok"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_large_archive(root: Path) -> None:
    """200,000 segments: the first look takes seconds, each later one a fraction of one."""
    for camera_number in range(8):
        for day in range(87):
            folder = root / f"cam{camera_number}" / f"2025-{1 + day // 28:02}-{1 + day % 28:02}"
            folder.mkdir(parents=True)
            for number in range(288):
                stem = f"cam{camera_number}_{folder.name.replace('-', '')}T{number // 12:02}{number % 12 * 5:02}00Z"
                (folder / f"{stem}.mp4").touch()
                (folder / f"{stem}.json").touch()
    index, taken = Index(root), []
    time.sleep(2.1)
    for _ in range(3):
        began_s = time.monotonic()
        list(index.refresh())
        taken.append(time.monotonic() - began_s)
    assert index.segments == 8 * 87 * 288
    print(f"first look {taken[0]:.2f} s, later {taken[2] * 1000:.0f} ms")
    assert taken[0] < 30
    assert taken[2] < 0.5
