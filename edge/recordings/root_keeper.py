"""Looks after one recordings root: recovers what was left unfinished, deletes what has to go, watches the space."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from edge.cameras import CameraSettings
from edge.errors import StorageError
from edge.recordings.chain import Chain
from edge.recordings.clock import Clock
from edge.recordings.deletion import delete, remove_empty_day, sweep
from edge.recordings.index import Entry, Index
from edge.recordings.recovery import describe, recover_part
from edge.recordings.retention import Policies, beyond_size, maybe_too_old, oldest_worth
from edge.recordings.root import Root, RootLostError, Space
from edge.reports import Event, Level, RootReport

_log = logging.getLogger(__name__)

ROUND_S, REFRESH_S = 1.0, 10.0
CLOCK_TRUST_S, CLOCK_STEP_S = 600.0, 5.0
STRAY_AGE_S = 3600.0
# Deleting must show within this time, else somebody holds the deleted files open and more of it would not help.
EFFECT_S, STUCK_RETRY_S = 5.0, 60.0
RATE_WINDOW_S = 900.0
SILENT_S = 10.0


class RootKeeper:
    """Works in a thread of its own: one disk that hangs must not keep the others waiting. tell: gets events."""

    def __init__(self, path: Path, cameras: tuple[CameraSettings, ...], tell: Callable[[Event], None],
                 clock: Clock) -> None:  # fmt: skip
        self._path, self._tell, self._clock = path, tell, clock
        self._policies = Policies.of(cameras)
        self._root = Root(path, self._policies.floor_bytes)
        self._index = Index(path)
        self._foreign: set[Entry] = set()
        self._report = RootReport(str(path), floor_bytes=self._policies.floor_bytes)
        self._refresh_s = self._stuck_until_s = float("-inf")
        self._clock_since_s, self._clock_offset_s = clock.monotonic_s(), clock.utc_s() - clock.monotonic_s()
        self._expected: tuple[float, int] | None = None         # by when how much must be free
        self._produced: deque[tuple[float, int]] = deque()
        self._deleted_bytes = 0
        self.progress = 0
        self._alive_s = clock.monotonic_s()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keep", daemon=True)
        self._thread.start()

    def report(self) -> RootReport:
        """The state now. Any thread."""
        silent_s = self._clock.monotonic_s() - self._alive_s
        if silent_s > SILENT_S:
            return replace(self._report, state="failed", detail=f"the disk has not answered for {silent_s:.0f} s")
        return replace(self._report)

    @property
    def has_looked(self) -> bool:
        """Whether it went through all that was there at the start."""
        return self._refresh_s > float("-inf")

    def stop(self, timeout_s: float) -> None:
        """End the thread; one that waits for a disk is left."""
        self._stopped.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.look()
            except (OSError, StorageError) as error:
                state = "missing" if isinstance(error, RootLostError) else "failed"
                self._set_state(state, str(error).removeprefix(f"{self._path}: "))
            except Exception as error:      # a defect here must not end retention
                _log.exception("looking after %s failed", self._path)
                self._set_state("failed", f"{type(error).__name__}: {error}")
            self._goes_on()
            self._stopped.wait(ROUND_S)

    def look(self) -> None:
        """One round. Raises OSError (StorageError) for the disk."""
        self._root.check()
        now_s = self._clock.monotonic_s()
        if now_s - self._refresh_s >= REFRESH_S:
            for _ in self._index.refresh():
                self._goes_on()
            self._produced.append((now_s, self._index.size_bytes + self._deleted_bytes))
            self._recover()
            self._sweep()
            self._refresh_s = now_s
            self._report.segments = self._index.segments
        space = self._root.space()
        if space.is_read_only:
            self._set_state("read_only", "the file system is read-only: check the disk, then mount it writable again",
                            space)
            return
        self._delete_old()
        self._delete(beyond_size(self._index, self._policies))
        self._make_room(self._root.space())

    def _recover(self) -> None:
        for camera, days in self._index.cameras.items():
            for name, day in days.items():
                for part in day.parts:
                    outcome = recover_part(self._path / camera / name / part, Chain(self._path / camera))
                    self._goes_on()
                    if outcome is None:
                        continue
                    day.is_fresh = True
                    self._report.recovered += outcome.kind in ("recovered", "finished")
                    self._report.broken += outcome.kind == "broken"
                    self._tell(Event(*describe(outcome), camera))

    def _sweep(self) -> None:
        today = datetime.fromtimestamp(self._clock.utc_s(), timezone.utc)
        yesterday = f"{today - timedelta(days=1):%Y-%m-%d}"
        for camera, days in self._index.cameras.items():
            for name, day in days.items():
                if day.strays:
                    sweep(self._path, camera, name, day.strays, self._clock.utc_s() - STRAY_AGE_S)
                if not day.entries and not day.parts and name < yesterday:
                    remove_empty_day(self._path, camera, name)

    def _delete_old(self) -> None:
        now_s, utc_s = self._clock.monotonic_s(), self._clock.utc_s()
        if abs(utc_s - now_s - self._clock_offset_s) > CLOCK_STEP_S:
            self._clock_since_s, self._clock_offset_s = now_s, utc_s - now_s
        # A clock that runs years ahead would cost all recordings: one that no server vouches for is watched first.
        if not self._clock.is_synchronised() and now_s - self._clock_since_s < CLOCK_TRUST_S:
            return
        self._delete(maybe_too_old(self._index, self._policies, utc_s), utc_s)

    def _make_room(self, space: Space) -> None:
        now_s = self._clock.monotonic_s()
        goal_bytes = space.goal_bytes(self._per_minute())
        if self._expected is not None:
            by_s, free_bytes = self._expected
            if space.free_bytes >= min(free_bytes, goal_bytes):
                self._expected = None
            elif now_s < by_s:
                return
            else:
                self._expected, self._stuck_until_s = None, now_s + STUCK_RETRY_S
        missing_bytes = goal_bytes - space.free_bytes
        if missing_bytes > 0 and now_s >= self._stuck_until_s:
            freed = self._delete(oldest_worth(self._index, missing_bytes))
            wanted_bytes, space = space.free_bytes + freed // 2, self._root.space()
            if space.free_bytes < wanted_bytes:     # some file systems take a moment, in which cameras write on
                written_bytes = int(self._per_minute() * EFFECT_S / 60)
                self._expected = (now_s + EFFECT_S, wanted_bytes - written_bytes)
        if space.free_bytes >= space.pause_bytes:
            self._set_state("ok", "", space)
        elif now_s < self._stuck_until_s:
            self._set_state("low", "deleting frees no room: does a program hold deleted files open?", space)
        elif self._expected is None:
            self._set_state("low", "nothing is left to delete: recording pauses until there is room", space)

    def _per_minute(self) -> int:
        """What all cameras write, bytes, over the last quarter of an hour."""
        now_s = self._clock.monotonic_s()
        while len(self._produced) > 1 and self._produced[0][0] < now_s - RATE_WINDOW_S:
            self._produced.popleft()
        if len(self._produced) < 2:
            return 0
        (start_s, start_bytes), (end_s, end_bytes) = self._produced[0], self._produced[-1]
        return max(0, round((end_bytes - start_bytes) / max(1.0, end_s - start_s) * 60))

    def _delete(self, entries: Iterable[Entry], now_utc_s: float | None = None) -> int:
        """Delete these, by their end where `now_utc_s` is given; bytes that this should free."""
        wanted = [entry for entry in entries if entry not in self._foreign]
        freed = 0
        for (camera, day), group in itertools.groupby(wanted, key=lambda entry: (entry.camera, entry.day)):
            age_s = self._policies.of_camera(camera).max_age_s
            before_s = now_utc_s - age_s if now_utc_s is not None and age_s is not None else None
            gone, foreign = delete(self._path, camera, day, list(group), before_s)
            self._foreign.update(foreign)
            for entry in gone:
                self._index.remove(entry)
                freed += entry.size_bytes
            self._report.deleted += len(gone)
            self._report.segments -= sum(not entry.is_broken for entry in gone)
            self._goes_on()
        self._deleted_bytes += freed
        return freed

    def _set_state(self, state: str, detail: str, space: Space | None = None) -> None:
        if state != self._report.state:
            level: Level = "info" if state == "ok" else "error"
            self._tell(Event(level, f"root-{state}", f"{self._path}: {detail or 'all is well again'}", "keeper"))
        self._report.state, self._report.detail = state, detail
        self._report.used_bytes = self._index.size_bytes
        if space is not None:
            self._report.free_bytes = space.free_bytes

    def _goes_on(self) -> None:
        self.progress += 1
        self._alive_s = self._clock.monotonic_s()
