"""Runs the requests of all cameras on one network: in threads, in turns, while there is time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from edge.detect.network import Network
from edge.errors import DetectorError, DeviceLostError, EdgeError
from edge.inference.wire import WireError, pack_failed, pack_found, pack_late
from edge.reports import Histogram
from edge.types import UInt8

# Estimates of run times are kept for so many input sizes; a camera has two or three.
_MAX_SIZES = 64
_CLOSE_S = 5.0


class ServedNetwork(Network, Protocol):
    """What the inference process has to know of a network beside running it. See `LocalNetwork`."""

    @property
    def model_sha256(self) -> str: ...
    @property
    def engine_sha256(self) -> str: ...
    @property
    def parallel_runs(self) -> int: ...
    def batches(self) -> Mapping[int, int]: ...


@dataclass(slots=True, eq=False)
class Job:
    """One request. owner: jobs of different owners take turns. answer: takes the packet; must not raise or block.
    is_wanted: whether anybody still waits."""

    owner: int
    number: int
    pixels: UInt8
    min_score: float
    deadline_ns: int
    answer: Callable[[bytes], None]
    is_wanted: Callable[[], bool]
    arrived_ns: int = field(default_factory=time.monotonic_ns)


@dataclass(slots=True)
class Counts:
    """What was done so far; one for all networks, changed under its lock."""

    requests: int = 0
    failures: int = 0
    late: int = 0
    run_ms: Histogram = field(default_factory=Histogram)
    wait_ms: Histogram = field(default_factory=Histogram)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Pool:
    """Threads that run jobs on one network.

    Owners take turns; jobs of one owner run in their order, because its frames leave it in their order, too. Which
    frames are looked at at all is decided by the camera, which has few requests under way. A job whose time is over, or
    would be before its run ends, is answered "late" and not run: under overload every run counts.

    counts: are added to. on_lost: called once with the error after which no run will work in this process.
    """

    def __init__(self, network: ServedNetwork, counts: Counts, on_lost: Callable[[EdgeError], None]) -> None:
        self.network = network
        self._counts, self._on_lost = counts, on_lost
        self._jobs: OrderedDict[int, deque[Job]] = OrderedDict()
        self._condition = threading.Condition()
        self._closed = False
        self._runs_since_ns: dict[int, int] = {}        # thread -> when its run began
        self._run_ns: dict[tuple[int, ...], float] = {}
        self._threads = [
            threading.Thread(target=self._work, name=f"network-{number}", daemon=True)
            for number in range(max(1, network.parallel_runs))
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; it is answered later, from another thread."""
        with self._condition:
            self._jobs.setdefault(job.owner, deque()).append(job)
            self._condition.notify()

    def oldest_run_s(self) -> float:
        """How long the longest run that is under way has taken."""
        runs = list(self._runs_since_ns.values())
        return (time.monotonic_ns() - min(runs)) / 1e9 if runs else 0.0

    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        with self._condition:
            return not self._runs_since_ns and not self._jobs

    def close(self) -> None:
        """End the threads, then the network; what still waits is not answered."""
        with self._condition:
            self._closed = True
            self._jobs.clear()
            self._condition.notify_all()
        end_s = time.monotonic() + _CLOSE_S
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            self.network.close()

    def _work(self) -> None:
        me = threading.get_ident()
        while (job := self._next(me)) is not None:
            try:
                lost = self._run(job)
            finally:
                del self._runs_since_ns[me]
            if lost is not None:
                self._on_lost(lost)
                return
            del job     # and with it the shared memory, while waiting for the next

    def _next(self, me: int) -> Job | None:
        with self._condition:
            while not self._jobs and not self._closed:
                self._condition.wait()
            if self._closed:
                return None
            owner, jobs = self._jobs.popitem(last=False)
            job = jobs.popleft()
            if jobs:
                self._jobs[owner] = jobs        # at the end of the line
            self._runs_since_ns[me] = time.monotonic_ns()
            return job

    def _run(self, job: Job) -> DeviceLostError | None:
        """Run and answer one job; the error when nothing will run any more."""
        if not job.is_wanted():
            return None
        start_ns = time.monotonic_ns()
        size = job.pixels.shape
        expected_ns = self._run_ns.get(size, 0.0)
        if start_ns + expected_ns > job.deadline_ns:
            # Expect less next time: one slow run must not be the last one ever.
            self._run_ns[size] = 0.9 * expected_ns
            self._count(late=1)
            job.answer(pack_late(job.number))
            return None
        lost: DeviceLostError | None = None
        failed = 0
        try:
            packet = pack_found(job.number, self.network.find(job.pixels, job.min_score))
        except DeviceLostError as error:
            lost, failed, packet = error, 1, pack_failed(job.number, error)
        except (EdgeError, WireError) as error:
            failed = 1
            packet = pack_failed(job.number, error if isinstance(error, EdgeError) else DetectorError(str(error)))
        except Exception as error:
            failed = 1
            packet = pack_failed(job.number, DetectorError(f"the detector failed ({type(error).__name__}: {error})"))
        end_ns = time.monotonic_ns()
        job.answer(packet)
        if not failed:
            self._learn(size, end_ns - start_ns)
        self._count(failures=failed, run_ms=(end_ns - start_ns) / 1e6, wait_ms=(start_ns - job.arrived_ns) / 1e6)
        return lost

    def _learn(self, size: tuple[int, ...], run_ns: int) -> None:
        if len(self._run_ns) >= _MAX_SIZES and size not in self._run_ns:
            self._run_ns.clear()
        self._run_ns[size] = 0.8 * self._run_ns.get(size, run_ns) + 0.2 * run_ns

    def _count(
        self, late: int = 0, failures: int = 0, run_ms: float | None = None, wait_ms: float | None = None
    ) -> None:
        counts = self._counts
        with counts.lock:
            counts.requests += 1
            counts.late += late
            counts.failures += failures
            if run_ms is not None:
                counts.run_ms.add(run_ms)
            if wait_ms is not None:
                counts.wait_ms.add(wait_ms)
