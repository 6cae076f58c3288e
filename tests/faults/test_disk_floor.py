"""P6: the disk floor holds while many cameras write, with retention and when nothing is left to delete."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from edge.cameras import Retention
from edge.recordings import root_keeper
from edge.recordings.clock import SystemClock
from edge.recordings.root_keeper import RootKeeper
from edge.recordings.verify import verify
from edge.reports import Event
from edge.video.gst import load
from tests.harness.disk import block_disk, free_bytes, frozen, needs_root, take_all_but
from tests.unit.recordings.archive import add_segment, names
from tests.unit.recordings.cameras import FPS, Feed, camera, feed, sidecar, wait_until

pytestmark = needs_root

MEBI = 1 << 20
FLOOR = Retention(None, None, 16 * MEBI)
CAMERAS = 4


class Lowest:
    """The least that was free at any time."""

    def __init__(self, disk: Path) -> None:
        self._disk, self._stopped = disk, threading.Event()
        self.free_bytes = free_bytes(disk)
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopped.wait(0.01):
            self.free_bytes = min(self.free_bytes, free_bytes(self._disk))

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


@contextmanager
def watched(disk: Path) -> Iterator[Lowest]:
    lowest = Lowest(disk)
    try:
        yield lowest
    finally:
        lowest.stop()


def test_the_floor_holds_while_cameras_write(tmp_path: Path) -> None:
    load()      # its import is not made for several threads at once; the daemon has a process for each camera
    doors = [f"cam{number}" for number in range(CAMERAS)]
    with block_disk(tmp_path / "disk", 400 * MEBI) as disk:
        (disk / ".edge-recordings").touch()
        for number in range(20):
            add_segment(disk, "old", time.time() - 86400 + 60 * number, MEBI)
        take_all_but(disk, FLOOR.min_free_bytes + 9 * MEBI)
        settings = tuple(camera(disk, 1.0, name, retention=FLOOR) for name in doors)
        events: list[Event] = []
        with watched(disk) as lowest, ExitStack() as stack:
            feeds = [stack.enter_context(feed(each)) for each in settings]
            keeper = RootKeeper(disk, settings, events.append, SystemClock())
            try:
                for _ in range(8 * FPS):
                    record(feeds)
                assert keeper.report().deleted > 0
                assert keeper.report().state == "ok", keeper.report().detail
                assert [each.keys for each in feeds] == [[]] * CAMERAS        # nobody had to wait
            finally:
                keeper.stop(20.0)
            deadline_s = time.monotonic() + 60      # from here nothing is deleted any more
            while not all(each.recorder.paused == "disk full" for each in feeds):
                assert time.monotonic() < deadline_s
                record(feeds)
        assert lowest.free_bytes >= FLOOR.min_free_bytes
        assert verify(disk) == []
        for name, each in zip(doors, feeds, strict=True):
            written = sum(sidecar(file)["frames"] for file in (disk / name).glob("*/*.mp4"))
            assert written + each.recorder.dropped == each.index
        print(f"least that was free: {(lowest.free_bytes - FLOOR.min_free_bytes) / 1e6:.1f} MB above the floor")


def test_a_disk_that_hangs_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root_keeper, "SILENT_S", 2.0)
    nothing = Retention(None, 0, 0)
    other = tmp_path / "other"
    other.mkdir()
    with block_disk(tmp_path / "disk", 32 * MEBI) as disk:
        for root in (disk, other):
            (root / ".edge-recordings").touch()
            add_segment(root, "door", time.time())
        with frozen(disk):
            keepers = [RootKeeper(root, (camera(root, retention=nothing),), lambda event: None, SystemClock())
                       for root in (disk, other)]
            wait_until(lambda: keepers[0].report().state == "failed")
            assert "has not answered" in keepers[0].report().detail
            wait_until(lambda: keepers[1].report().deleted == 1)
            began_s = time.monotonic()
            keepers[0].stop(0.5)
            assert time.monotonic() - began_s < 5
        for keeper in keepers:
            keeper.stop(20.0)
        assert names(disk) == []            # it went on where it was held up
        assert verify(disk) == verify(other) == []


def record(feeds: list[Feed]) -> None:
    """A frame of each camera, in real time."""
    began_s = time.monotonic()
    for each in feeds:
        each.frames(1, pace=0, noisy=True)
    time.sleep(max(0.0, 1 / FPS - (time.monotonic() - began_s)))
