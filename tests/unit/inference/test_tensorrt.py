"""How callers share the one thread that owns the GPU. What runs there is a stand-in; the real thing is in tests/gpu."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge.errors import DetectorError, DeviceLostError, EdgeError, UnavailableError
from edge.inference import gpu_thread
from edge.inference.tensorrt import TensorRtRuntime
from edge.nvidia.callbacks import Log
from edge.nvidia.engine import IoTensor, Profile

RUN_S = 0.004


class Machine:
    """Stands for CUDA and TensorRT: what was made and freed, in which thread, and what goes wrong.

    batches: size of each run. fail: raised by runs from then on. lost: whether the context is broken.
    """

    errors = RuntimeError
    name = "a GPU"

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.freed: list[str] = []
        self.threads: set[str] = set()
        self.fail: Exception | None = None
        self.lost = self.abandoned = False

    def touch(self) -> None:
        self.threads.add(threading.current_thread().name)

    def is_lost(self) -> bool:
        self.touch()
        return self.lost

    def abandon(self) -> None:
        self.abandoned = True

    def scratch(self, size_bytes: int) -> int:
        return 4096

    def close(self) -> None:
        self.touch()
        self.freed.append("cuda")


class StandInEngine:
    """A payload is ``HEIGHTxWIDTH``; profiles for a batch of one and for two to eight."""

    scratch_bytes = 100

    def __init__(self, library: Any, payload: bytes, title: str) -> None:
        if b"x" not in payload:
            raise UnavailableError(f"the engine of {title} is refused")
        self.machine: Machine = library.machine
        height, width = map(int, payload.split(b"x"))
        self.inputs = (IoTensor("picture", True, np.dtype(np.uint8), (-1, height, width, 3)),)
        shape = (height, width, 3)
        self.profiles = (Profile(0, 1, 1, {"picture": (1, *shape)}), Profile(1, 2, 8, {"picture": (8, *shape)}))

    def close(self) -> None:
        self.machine.freed.append("engine")


class StandInLane:
    """Gives the mean of each picture."""

    def __init__(self, cuda: Machine, engine: Any, profile: Profile, scratch: tuple[int, int], graphs: bool) -> None:
        self._machine = cuda
        self.least_batch, self.most_batch = profile.least_batch, profile.most_batch

    def run(self, requests: Sequence[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
        self._machine.touch()
        if self._machine.fail is not None:
            raise self._machine.fail
        total = sum(len(request["picture"]) for request in requests)
        assert self.least_batch <= total <= self.most_batch
        self._machine.batches.append(total)
        time.sleep(RUN_S)
        return [{"mean": request["picture"].mean(axis=(1, 2, 3), dtype=np.float32)} for request in requests]

    def close(self) -> None:
        self._machine.freed.append("lane")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    library = type("Library", (), {"machine": made, "log": Log(), "title": "TensorRT 8.6.0"})
    monkeypatch.setattr(gpu_thread, "Cuda", lambda: made)
    monkeypatch.setattr(gpu_thread, "load_tensorrt", lambda: library)
    monkeypatch.setattr(gpu_thread, "Engine", StandInEngine)
    monkeypatch.setattr(gpu_thread, "Lane", StandInLane)
    return made


PICTURES = [np.full((1, 32, 64, 3), value, np.uint8) for value in range(200)]


def test_a_single_caller_is_never_kept_waiting(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_thread, "FILL_S", 2.0)
    runtime = TensorRtRuntime([b"32x64"], "net")
    started_s = time.monotonic()
    for picture in PICTURES[:50]:
        runtime.run(picture)
    assert time.monotonic() - started_s < 50 * 2.0 / 2      # if each had waited to fill a batch, twice that
    assert machine.batches == [1] * 50
    assert machine.threads == {"gpu"}
    runtime.close()


@pytest.mark.parametrize("callers", [2, 4, 8, 20])
def test_callers_of_one_size_share_batches(machine: Machine, callers: int) -> None:
    runtime = TensorRtRuntime([b"32x64"], "net")
    with ThreadPoolExecutor(callers) as threads:
        means = [float(outputs["mean"][0]) for outputs in threads.map(runtime.run, PICTURES)]
    assert means == list(range(200))
    assert sum(machine.batches) == 200
    assert max(machine.batches) <= 8
    assert np.mean(machine.batches) > 0.6 * min(8, callers)
    runtime.close()


def test_sizes_do_not_mix_and_none_starves(machine: Machine) -> None:
    runtime = TensorRtRuntime([b"32x64", b"64x64"], "net", "fp16")
    assert runtime.describe() == "TensorRT 8.6.0 (a GPU, fp16)"
    assert runtime.sizes == {(32, 64), (64, 64)}
    large = [np.full((1, 64, 64, 3), value, np.uint8) for value in range(40)]
    with ThreadPoolExecutor(12) as threads:
        pictures = [picture for pair in zip(large, PICTURES[:40], strict=True) for picture in pair]
        means = [float(outputs["mean"][0]) for outputs in threads.map(runtime.run, pictures)]
    assert means == [value for value in range(40) for _ in range(2)]
    runtime.close()


def test_a_batch_of_one_caller(machine: Machine) -> None:
    runtime = TensorRtRuntime([b"32x64"], "net")
    assert runtime.run(np.concatenate(PICTURES[:5]))["mean"].tolist() == [0, 1, 2, 3, 4]
    assert machine.batches == [5]
    with pytest.raises(DetectorError, match="batches of up to 8, not 9"):
        runtime.run(np.concatenate(PICTURES[:9]))
    with pytest.raises(DetectorError, match="no engine for inputs of 8x8x3"):
        runtime.run(np.zeros((1, 8, 8, 3), np.uint8))
    with pytest.raises(DetectorError, match="needs the input 'picture'"):
        runtime.run_network({"other": PICTURES[0]})
    runtime.close()


def test_a_failed_run_is_the_caller_s_alone(machine: Machine) -> None:
    runtime = TensorRtRuntime([b"32x64"], "net")
    machine.fail = ValueError("no such kernel")
    for _ in range(2):
        with pytest.raises(DetectorError, match=r"TensorRT failed \(no such kernel\)"):
            runtime.run(PICTURES[0])
    machine.fail = None
    assert runtime.run(PICTURES[7])["mean"] == [7]
    runtime.close()


def test_a_lost_gpu_is_lost_for_all_and_for_good(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()
    monkeypatch.setattr(gpu_thread.GpuThread, "_park", lambda *arguments: end.wait())
    runtime = TensorRtRuntime([b"32x64"], "net")
    runtime.run(PICTURES[0])
    owner = runtime._owner._thread
    machine.fail, machine.lost = RuntimeError("an illegal memory access was encountered"), True

    def attempt(picture: np.ndarray) -> EdgeError | None:
        try:
            runtime.run(picture)
        except EdgeError as error:
            return error
        return None

    with ThreadPoolExecutor(6) as threads:
        errors = list(threads.map(attempt, PICTURES[:30]))
    assert {type(error) for error in errors} == {DeviceLostError}
    assert {error.exit_code for error in errors if error} == {75}
    assert "an illegal memory access was encountered" in str(errors[0])
    runtime.close()
    assert machine.abandoned
    assert machine.freed == []          # nothing can be freed, and trying aborts the process
    assert owner.is_alive()             # nor may its thread end
    runtime.close()
    end.set()


def test_closing_frees_in_order_and_once(machine: Machine) -> None:
    runtime = TensorRtRuntime([b"32x64", b"64x64"], "net")
    runtime.close()
    runtime.close()
    assert machine.freed == ["lane"] * 4 + ["engine"] * 2 + ["cuda"]
    assert machine.threads == {"gpu"}
    with pytest.raises(DetectorError, match="net is closed"):
        runtime.run(PICTURES[0])


def test_closing_while_others_run(machine: Machine) -> None:
    runtime = TensorRtRuntime([b"32x64"], "net")
    outcomes: list[str] = []

    def work() -> None:
        try:
            while True:
                runtime.run(PICTURES[3])
        except DetectorError as error:
            outcomes.append(error.message)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    runtime.close()
    for thread in threads:
        thread.join(5)
    assert outcomes == ["net is closed"] * 5
    assert machine.freed[-1] == "cuda"


def test_one_that_nobody_closes_goes_with_its_last_reference(machine: Machine) -> None:
    runtime = TensorRtRuntime([b"32x64"], "net")
    gone = weakref.ref(runtime)
    del runtime
    gc.collect()
    assert gone() is None
    assert machine.freed[-1] == "cuda"


def test_a_refused_plan_leaves_nothing(machine: Machine) -> None:
    with pytest.raises(UnavailableError, match="the engine of net is refused"):
        TensorRtRuntime([b"32x64", b"garbage"], "net")
    assert machine.freed == ["engine", "cuda"]


def test_without_pycuda() -> None:
    """The real one."""
    if Path("/dev/nvidia0").exists():
        pytest.skip("there is a GPU here")
    with pytest.raises(UnavailableError):
        TensorRtRuntime([b"plan"], "net")
