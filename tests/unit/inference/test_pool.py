"""Who is served when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import numpy as np

from edge.detect.candidates import Candidates
from edge.errors import DeviceLostError, EdgeError
from edge.inference.pool import Counts, Job, Pool
from edge.inference.wire import LateError, parse_answer
from edge.models.description import ModelDescription
from edge.types import UInt8
from tests.harness.default_model import default_description
from tests.unit.inference.conftest import noise

NONE = Candidates(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros((0, 5, 2), np.float32))


class Timed:
    """A network that takes as long as it is told, one run at a time."""

    model: ModelDescription = default_description()
    reason = model_sha256 = engine_sha256 = ""
    parallel_runs = 1

    def __init__(self) -> None:
        self.run: Callable[[], object] = lambda: None
        self.gate = threading.Event()
        self.gate.set()
        self.runs = 0

    def find(self, pixels: UInt8, min_score: float) -> Candidates:
        self.gate.wait()
        self.runs += 1
        self.run()
        return NONE

    def batches(self) -> Mapping[int, int]:
        return {1: self.runs}

    def describe(self) -> str:
        return ""

    def close(self) -> None:
        pass


class Served:
    """A pool over a network, and who was answered in which order."""

    def __init__(self) -> None:
        self.network, self.counts, self.lost = Timed(), Counts(), list[EdgeError]()
        self.pool = Pool(self.network, self.counts, self.lost.append)
        self.answers: list[tuple[int, int, bytes]] = []

    def submit(self, owner: int, number: int, seconds: float = 10.0, wanted: bool = True) -> None:
        deadline_ns = time.monotonic_ns() + int(seconds * 1e9)
        self.pool.submit(
            Job(owner, number, noise(32, 32), 0.5, deadline_ns,
                lambda packet: self.answers.append((owner, number, packet)), lambda: wanted)
        )  # fmt: skip

    def finish(self) -> list[tuple[int, int]]:
        self.network.gate.set()
        end_s = time.monotonic() + 10
        while not self.pool.is_idle():
            assert time.monotonic() < end_s
            time.sleep(0.002)
        return [(owner, number) for owner, number, _ in self.answers]

    def is_late(self) -> bool:
        """Whether the last one was."""
        _, number, packet = self.answers[-1]
        try:
            parse_answer(packet, number, landmarks=True)
        except LateError:
            return True
        return False


def test_cameras_take_turns() -> None:
    """One with many requests does not keep the others waiting."""
    served = Served()
    served.network.gate.clear()
    for number in range(6):
        served.submit(1, number)
    served.submit(2, 0)
    served.submit(3, 0)
    served.submit(2, 1)
    order = served.finish()
    assert order[0] == (1, 0)
    assert order.index((2, 0)) <= 2
    assert order.index((3, 0)) <= 3
    assert order.index((2, 1)) <= 5
    assert [number for owner, number in order if owner == 1] == list(range(6))
    served.pool.close()


def test_what_cannot_be_done_in_time_is_not_begun() -> None:
    served = Served()
    served.network.run = lambda: time.sleep(0.1)
    served.submit(1, 0)
    served.finish()
    served.submit(1, 1, seconds=0.05)
    served.finish()
    assert served.network.runs == 1
    assert served.is_late()
    assert served.counts.late == 1
    served.pool.close()


def test_one_slow_run_is_not_the_last() -> None:
    served = Served()
    served.network.run = lambda: time.sleep(0.3)
    served.submit(1, 0)
    served.finish()
    served.network.run = lambda: None
    for number in range(1, 40):
        served.submit(1, number, seconds=0.1)
        served.finish()
    assert not served.is_late()
    assert 0 < served.counts.late < 30
    served.pool.close()


def test_who_is_gone_is_not_run() -> None:
    served = Served()
    served.network.gate.clear()
    served.submit(1, 0)
    served.submit(2, 0, wanted=False)
    assert served.finish() == [(1, 0)]
    assert served.network.runs == 1
    served.pool.close()


def test_a_run_that_hangs_is_seen() -> None:
    served = Served()
    served.network.gate.clear()
    served.submit(1, 0)
    time.sleep(0.2)
    assert 0.1 < served.pool.oldest_run_s() < 1.0
    served.finish()
    assert served.pool.oldest_run_s() == 0.0
    served.pool.close()


def test_the_loss_of_the_gpu_is_told_once_and_answered() -> None:
    served = Served()

    def fail() -> None:
        raise DeviceLostError("the GPU is lost")

    served.network.run = fail
    served.submit(1, 0)
    end_s = time.monotonic() + 5
    while not served.lost:
        assert time.monotonic() < end_s
        time.sleep(0.002)
    assert served.answers
    assert [str(error) for error in served.lost] == ["the GPU is lost"]
    served.pool.close()
