"""Whatever happens in the inference process, a camera gets candidates that are in order, or an error in time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edge.detect.candidates import Candidates
from edge.errors import DetectorError
from edge.inference.client import RemoteNetwork
from edge.settings import DetectSettings
from edge.types import UInt8
from tests.harness import faulty_inference
from tests.harness.inference_server import InferenceServer

PICTURE: UInt8 = np.random.default_rng(0).integers(0, 256, (1, 192, 320, 3), np.uint8)
DEADLINE_S = 1.0
Inject = Callable[..., None]


@pytest.fixture
def faults(tmp_path: Path) -> Path:
    return tmp_path / "faults.json"


@pytest.fixture
def inject(faults: Path) -> Inject:
    """Says which faults there are from now on."""

    def write(*listed: dict[str, object], seed: int = 0) -> None:
        part = faults.with_suffix(".part")
        part.write_text(json.dumps({"seed": seed, "faults": listed}))
        part.replace(faults)

    return write


@pytest.fixture
def settings(default_model: Path) -> DetectSettings:
    return DetectSettings(model=str(default_model), backend="onnxruntime")


@pytest.fixture
def server(tmp_path: Path, settings: DetectSettings, faults: Path) -> Iterator[InferenceServer]:
    module, environment = "tests.harness.faulty_inference", {faulty_inference.VARIABLE: str(faults)}
    with InferenceServer(tmp_path, (settings,), module, environment) as running:
        yield running


@pytest.fixture
def network(server: InferenceServer, settings: DetectSettings) -> Iterator[RemoteNetwork]:
    made = RemoteNetwork(server.path, settings, "door", DEADLINE_S)
    assert made.connect(20)
    yield made
    made.close()


def find(network: RemoteNetwork) -> Candidates:
    """With a check of how long it takes."""
    start_s = time.monotonic()
    try:
        return network.find(PICTURE, 0.05)
    finally:
        assert time.monotonic() - start_s < DEADLINE_S + 0.3


def recover(network: RemoteNetwork, within_s: float = 5.0) -> Candidates:
    end_s = time.monotonic() + within_s
    while True:
        try:
            return find(network)
        except DetectorError:
            assert time.monotonic() < end_s
            time.sleep(0.05)


@pytest.mark.parametrize("kind", [
    "raise", "surprise", "memory", "nan", "infinite", "wrong_shape", "wrong_type", "nothing",
    "nan_boxes", "odd_boxes", "no_landmarks",
])  # fmt: skip
def test_a_bad_run_is_an_error_and_the_next_is_good(
    server: InferenceServer, network: RemoteNetwork, inject: Inject, kind: str
) -> None:
    expected, pid = find(network), server.pid
    inject({"kind": kind, "probability": 1.0})
    for _ in range(3):
        with pytest.raises(DetectorError):
            find(network)
    inject()
    np.testing.assert_array_equal(recover(network).boxes, expected.boxes)
    assert server.listen()
    assert server.pid == pid
    assert server.fatal is None


def test_slow_runs_are_late_and_not_waited_for(
    server: InferenceServer, network: RemoteNetwork, inject: Inject
) -> None:
    find(network)
    inject({"kind": "slow", "probability": 1.0, "seconds": 1.5})
    with pytest.raises(DetectorError, match="in time"):
        find(network)
    inject()
    recover(network)
    assert server.listen()


@pytest.mark.parametrize("kind", ["crash", "exit"])
def test_a_crash_is_noticed_at_once(
    server: InferenceServer, network: RemoteNetwork, inject: Inject, kind: str
) -> None:
    expected = find(network)
    inject({"kind": kind, "probability": 1.0})
    start_s = time.monotonic()
    with pytest.raises(DetectorError, match="gone"):
        find(network)
    with pytest.raises(DetectorError):
        find(network)
    assert time.monotonic() - start_s < 5.0
    assert server.wait() == {"crash": -11, "exit": 1}[kind]
    inject()
    server.start()
    np.testing.assert_array_equal(recover(network, 20).boxes, expected.boxes)


def test_a_lost_gpu_ends_the_process(server: InferenceServer, network: RemoteNetwork, inject: Inject) -> None:
    find(network)
    inject({"kind": "device_lost", "probability": 1.0})
    with pytest.raises(DetectorError, match="injected loss"):
        find(network)
    assert server.wait() == 75
    assert server.fatal is not None
    assert server.fatal.exit_code == 75
    assert "injected loss" in server.fatal.text


def test_a_hang_stops_progress_and_ends_the_process(
    server: InferenceServer, network: RemoteNetwork, inject: Inject
) -> None:
    find(network)
    inject({"kind": "hang", "probability": 1.0})
    start_s = time.monotonic()
    with pytest.raises(DetectorError):
        find(network)
    inject()
    server.until(lambda: server.report.requests == 1)
    seen = set()
    while server.listen(0.2):
        seen.add(server.report.progress)
    assert len(seen) <= 3       # one for the good run, one for a look before the bad one
    assert server.wait() == 75
    assert 9 < time.monotonic() - start_s < 40
    assert server.fatal is not None
    assert "has not come back" in server.fatal.text


def test_a_process_that_holds_everything_does_not_report(
    server: InferenceServer, network: RemoteNetwork, inject: Inject
) -> None:
    """Its supervisor sees that, and kills it; here the camera gives up in time and comes back afterwards."""
    find(network)
    inject({"kind": "hang_all", "probability": 1.0})
    with pytest.raises(DetectorError):
        find(network)
    inject()
    server.listen()
    last = server.report
    assert server.listen(2.5)
    assert server.report is last
    server.kill()
    server.start()
    recover(network, 20)


def test_a_mix_by_seed(server: InferenceServer, network: RemoteNetwork, inject: Inject) -> None:
    """No result is ever anything but what a good run gives."""
    expected = find(network)
    kinds = ["raise", "nan", "infinite", "wrong_shape", "wrong_type", "nothing", "nan_boxes", "odd_boxes"]
    inject(*({"kind": kind, "probability": 0.08} for kind in kinds), seed=7)
    good = 0
    for _ in range(200):
        try:
            found = find(network)
        except DetectorError:
            continue
        good += 1
        np.testing.assert_array_equal(found.boxes, expected.boxes)
        np.testing.assert_array_equal(found.landmarks, expected.landmarks)
    assert 40 < good < 110
    assert server.listen()
