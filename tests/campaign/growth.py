"""Whether the daemon grows while faults come and go: memory, threads, descriptors, zombies, shared memory."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from tests.bench.measure import pss_bytes
from tests.campaign.world import World, children_of

SAMPLE_S = 5.0
SETTLE_S = 120.0            # caches fill, pools of threads start
SHORTEST_S = 300.0          # a process that lives shorter says nothing about growth


@dataclass(slots=True)
class Life:
    """One process. rows: seconds, memory in MB, threads, descriptors."""

    name: str
    rows: list[tuple[float, float, int, int]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """From the first sample to the last."""
        return self.rows[-1][0] - self.rows[0][0]

    def slope(self, column: int) -> tuple[float, float]:
        """Growth per hour by least squares, and its standard error, after the first `SETTLE_S`."""
        rows = np.array([row for row in self.rows if row[0] >= self.rows[0][0] + SETTLE_S])
        hours, values = rows[:, 0] / 3600, rows[:, column]
        (slope, _), covariance = np.polyfit(hours, values, 1, cov=True)
        return float(slope), float(np.sqrt(covariance[0, 0]))


class Growth:
    """Samples in a thread of its own while the context is open."""

    def __init__(self, world: World) -> None:
        self._world, self._done = world, threading.Event()
        self._lives: dict[int, Life] = {}
        self._thread = threading.Thread(target=self._watch, name="growth")
        self.zombies = self.most_shared = 0
        self.shared_before = _entries("/dev/shm")

    def __enter__(self) -> Growth:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        started_s, zombies = time.monotonic(), 0
        while not self._done.wait(SAMPLE_S):
            self.most_shared = max(self.most_shared, _entries("/dev/shm"))
            with contextlib.suppress(AssertionError):       # no daemon at the moment
                names = {each["pid"]: each["name"] for each in self._world.status().get("processes", [])}
                names[self._world.pid] = "supervisor"
                states = [_state(pid) for pid in children_of(self._world.pid)]
                zombies = zombies + 1 if "Z" in states else 0       # one that is just being reaped is none
                self.zombies = max(self.zombies, zombies - 1)
                for pid, name in names.items():
                    self._sample(pid, name, time.monotonic() - started_s)

    def _sample(self, pid: int | None, name: str, now_s: float) -> None:
        if pid is None:
            return
        with contextlib.suppress(OSError):
            threads = _entries(f"/proc/{pid}/task")
            descriptors = _entries(f"/proc/{pid}/fd")
            row = now_s, pss_bytes(pid) / 1e6, threads, descriptors
            self._lives.setdefault(pid, Life(name)).rows.append(row)

    def longest(self) -> list[Life]:
        """Of each process by name, the one that lived longest; without those that were too short."""
        by_name: dict[str, list[Life]] = defaultdict(list)
        for life in self._lives.values():
            by_name[life.name].append(life)
        found = [max(lives, key=lambda life: life.seconds) for _, lives in sorted(by_name.items())]
        return [life for life in found if life.seconds >= SHORTEST_S]

    def table(self) -> Table:
        """For people."""
        table = Table("process", "minutes", "MB, median", "MB an hour", "threads an hour", "descriptors an hour",
                      title=f"growth, ± two standard errors; zombies {self.zombies}, "
                            f"/dev/shm {self.shared_before} entries before, {self.most_shared} at most")  # fmt: skip
        for life in self.longest():
            cells = [f"{slope:+.1f} ± {2 * error:.1f}" for slope, error in map(life.slope, (1, 2, 3))]
            median = np.median([row[1] for row in life.rows])
            table.add_row(life.name, f"{life.seconds / 60:.0f}", f"{median:.0f}", *cells)
        return table

    def to_plain(self) -> dict[str, Any]:
        """For JSON."""
        return {"zombies": self.zombies, "shared_before": self.shared_before, "most_shared": self.most_shared,
                "processes": {life.name: {"seconds": life.seconds, "mb": life.slope(1), "threads": life.slope(2),
                                          "descriptors": life.slope(3)} for life in self.longest()}}  # fmt: skip


def _entries(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
