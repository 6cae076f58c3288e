"""Small archives that look like recorded ones, made without recording anything, and a keeper for them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from edge.cameras import CameraSettings, Retention
from edge.recordings.chain import Chain
from edge.recordings.clock import utc_text
from edge.recordings.names import segment_name, sidecar_of
from edge.recordings.root_keeper import RootKeeper
from edge.reports import Event
from tests.unit.recordings.cameras import ManualClock, camera

DAY_S = 86400.0
NOW_S = 1_780_000_000.0


def add_segment(root: Path, camera: str, start_utc_s: float, size_bytes: int = 1000, duration_s: float = 60.0,
                **fields: Any) -> Path:  # fmt: skip
    """One segment with its sidecar, as the next of its camera's chain."""
    segment = segment_name(root, camera, start_utc_s)
    segment.parent.mkdir(parents=True, exist_ok=True)
    content = f"{camera}{start_utc_s}".encode().ljust(size_bytes, b".")
    segment.write_bytes(content)
    chain = Chain(root / camera)
    told = {"camera": camera, "start_utc": utc_text(start_utc_s), "end_utc": utc_text(start_utc_s + duration_s),
            "segment": {"name": segment.name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}}
    with chain.locked():
        chain.append(sidecar_of(segment), {**told, **fields})
    return segment


def names(root: Path) -> list[str]:
    """Names of the segments that are left, by camera and start."""
    return sorted(path.name for path in root.glob("*/*/*.mp4"))


class KeeperClock(ManualClock):
    """Monotonic time can be moved, too."""

    def __init__(self, synchronised: bool = True) -> None:
        super().__init__(NOW_S)
        self.later_s, self.synchronised = 0.0, synchronised

    def utc_s(self) -> float:
        return super().utc_s() + self.later_s

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_s

    def is_synchronised(self) -> bool | None:
        return self.synchronised


class Kept:
    """A root keeper whose rounds are made by hand."""

    def __init__(self, root: Path, *cameras: CameraSettings, clock: KeeperClock | None = None) -> None:
        self.events: list[Event] = []
        self.clock = clock or KeeperClock()
        self.keeper = RootKeeper(root, cameras, self.events.append, self.clock)
        self.keeper.stop(5.0)       # its thread has made one round at most; the others are ours

    def rounds(self, count: int = 1, apart_s: float = 11.0) -> None:
        for _ in range(count):
            self.clock.later_s += apart_s
            self.keeper.look()
            self.keeper._goes_on()


def kept(root: Path, *, clock: KeeperClock | None = None, **retention: float | int | None) -> Kept:
    limits = {"max_age_s": None, "min_free_bytes": 0} | retention
    return Kept(root, camera(root, retention=Retention(**limits)), clock=clock)     # type: ignore[arg-type]
