"""Faces found in the inference process are those found here, and its loss is an error at once, never a wait."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from edge.detect.detector import Detector
from edge.errors import DetectorError, InputError, UnavailableError
from edge.inference.client import RemoteNetwork
from edge.inference.local_network import open_detector, open_network
from edge.models.store import file_sha256
from edge.settings import DetectSettings
from tests.harness.inference_server import InferenceServer
from tests.unit.detect.photos import as_nv12, labelled
from tests.unit.inference.conftest import Connect, noise
from tests.unit.models.published import model_file


def until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.002)


def test_same_faces_as_in_this_process(
    server: InferenceServer, remote: Connect, settings: DetectSettings, shared_data: Path
) -> None:
    network = remote(server)
    there, here = Detector(settings, network), open_detector(settings)
    assert there.describe() == here.describe()
    assert there.score_threshold == here.score_threshold
    faces = 0
    for photo in labelled(shared_data, "human", 4):
        picture = as_nv12(photo.bgr)
        found, expected = there.detect(picture, (320, 640), 0.3), here.detect(picture, (320, 640), 0.3)
        np.testing.assert_array_equal(found.boxes, expected.boxes)
        np.testing.assert_array_equal(found.scores, expected.scores)
        np.testing.assert_array_equal(found.landmarks, expected.landmarks)
        faces += len(found)
    assert faces > 4
    here.close()


def test_what_it_says_about_the_model(server: InferenceServer, remote: Connect, settings: DetectSettings) -> None:
    network = remote(server)
    local = open_network(settings, None, lambda text: None)
    assert network.model == local.model
    assert network.describe() == local.describe()
    assert network.welcome.model_sha256 == file_sha256(Path(settings.model))
    assert network.welcome.engine_sha256 == ""
    assert network.trouble == ""
    local.close()


def test_threads_do_not_disturb_each_other(server: InferenceServer, remote: Connect, settings: DetectSettings) -> None:
    network = remote(server)
    local = open_network(settings, None, lambda text: None)
    pictures = [noise(96 + 32 * (seed % 3), 160, seed) for seed in range(24)]
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda picture: network.find(picture, 0.05), pictures))
    for picture, candidates in zip(pictures, found, strict=True):
        np.testing.assert_array_equal(candidates.boxes, local.find(picture, 0.05).boxes)
    local.close()


def test_nothing_listens(tmp_path: Path, settings: DetectSettings) -> None:
    network = RemoteNetwork(tmp_path / "inference.sock", settings, "door", 5.0)
    start_s = time.monotonic()
    assert not network.connect(0.2)
    assert not network.ready
    with pytest.raises(DetectorError, match="No such file"):
        network.find(noise(), 0.5)
    with pytest.raises(DetectorError, match="No such file"):
        _ = network.model
    assert time.monotonic() - start_s < 0.5
    network.close()


def test_a_server_that_dies_and_comes_back(server: InferenceServer, remote: Connect) -> None:
    network = remote(server)
    network.find(noise(), 0.5)
    before = network.model
    server.kill()
    start_s = time.monotonic()
    for _ in range(20):
        with pytest.raises(DetectorError):
            network.find(noise(), 0.5)
    assert time.monotonic() - start_s < 0.3
    assert not network.ready
    assert network.trouble
    server.start()
    until(lambda: network.ready)
    network.find(noise(), 0.5)
    assert network.model is before


def test_an_idle_camera_notices_the_loss(server: InferenceServer, remote: Connect) -> None:
    network = remote(server)
    assert network.ready
    server.kill()
    assert not network.ready


def test_a_server_that_is_stopped_costs_the_deadline_once(server: InferenceServer, remote: Connect) -> None:
    network = remote(server, deadline_s=0.4)
    network.find(noise(), 0.5)
    os.kill(server.pid, signal.SIGSTOP)
    times = []
    for _ in range(4):
        start_s = time.monotonic()
        with pytest.raises(DetectorError):
            network.find(noise(), 0.5)
        times.append(time.monotonic() - start_s)
    assert 0.3 < times[0] < 0.6
    assert max(times[1:]) < 0.1
    os.kill(server.pid, signal.SIGCONT)
    until(lambda: network.ready)
    network.find(noise(), 0.5)


def test_death_in_the_middle_of_many_calls(server: InferenceServer, remote: Connect) -> None:
    network = remote(server)
    errors: list[BaseException] = []

    def work() -> None:
        for seed in range(200):
            try:
                network.find(noise(seed=seed), 0.5)
            except DetectorError:
                time.sleep(0.01)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        time.sleep(0.3)
        server.kill()
        server.start()
    for thread in threads:
        thread.join(30)
    assert not errors
    until(lambda: network.ready)
    network.find(noise(), 0.5)


@pytest.mark.parametrize(
    ("wanted", "expected", "text"),
    [
        (DetectSettings(model="yunet_n", backend="tensorrt", require_gpu=True), UnavailableError, "not told"),
        (DetectSettings(model="/nowhere/model.onnx"), InputError, "/nowhere/model.onnx"),
    ],
)
def test_a_model_that_cannot_be_had(
    tmp_path: Path, settings: DetectSettings, wanted: DetectSettings, expected: type[Exception], text: str
) -> None:
    """The camera that asked is told; the others are served."""
    allowed = (settings, DetectSettings(model="/nowhere/model.onnx"))
    with InferenceServer(tmp_path, allowed) as server:
        network = RemoteNetwork(server.path, wanted, "odd", 5.0)
        with pytest.raises(expected, match=text):
            network.connect(20)
        assert not network.ready
        other = RemoteNetwork(server.path, settings, "door", 5.0)
        assert other.connect(20)
        other.find(noise(), 0.5)
        server.until(lambda: any("odd" in event.text and event.level == "error" for event in server.events))
        other.close()
        network.close()


def test_two_models_in_one_process(tmp_path: Path, shared_data: Path) -> None:
    """The second is loaded while the first is in use; each camera gets its own."""
    wanted = [DetectSettings(model=str(model_file(shared_data, name))) for name in ("yunet_n", "centerface")]
    with InferenceServer(tmp_path, tuple(wanted)) as server:
        first, second = (RemoteNetwork(server.path, each, "door", 5.0) for each in wanted)
        assert first.connect(20)
        assert not second.ready
        while not second.ready:
            start_s = time.monotonic()
            first.find(noise(), 0.5)
            assert time.monotonic() - start_s < 1.0
        assert [network.model.name for network in (first, second)] == ["yunet_n", "centerface"]
        for network, settings in ((first, wanted[0]), (second, wanted[1])):
            local = open_network(settings, None, lambda text: None)
            np.testing.assert_array_equal(network.find(noise(), 0.05).boxes, local.find(noise(), 0.05).boxes)
            local.close()
            network.close()
        server.until(lambda: len(server.report.models) == 2)


def test_another_model_after_a_restart(tmp_path: Path, shared_data: Path) -> None:
    """What was found with one model is never read as if another had found it."""
    path = tmp_path / "model.onnx"
    path.symlink_to(model_file(shared_data, "yunet_n"))
    wanted = DetectSettings(model=str(path))
    picture = as_nv12(next(labelled(shared_data, "human", 1)).bgr)
    with InferenceServer(tmp_path, (wanted,)) as server:
        network = RemoteNetwork(server.path, wanted, "door", 5.0)
        assert network.connect(20)
        detector = Detector(wanted, network)
        assert len(detector.detect(picture, (640,), 0.5))
        server.kill()
        path.unlink()
        path.symlink_to(model_file(shared_data, "centerface"))
        assert not network.ready
        server.start()
        assert network.connect(20)
        with_another = open_detector(wanted)
        found, expected = (each.detect(picture, (640,), 0.5) for each in (detector, with_another))
        np.testing.assert_array_equal(found.landmarks, expected.landmarks)
        assert detector.name == with_another.name != "YuNet-n"
        with_another.close()
        network.close()


def test_a_thousand_reconnections_leave_nothing(tmp_path: Path, settings: DetectSettings, remote: Connect,
                                                monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr("edge.inference.client.RETRY_S", 0.0)
    with InferenceServer(tmp_path) as server:
        network = remote(server)
        picture = noise(32, 64)
        counts = []
        for turn in range(1001):
            network.find(picture, 0.5)
            network._forget("a test")
            if turn in (20, 1000):
                until(lambda: connected(server.pid) == 0)
                counts.append((descriptors(os.getpid()), descriptors(server.pid), maps(os.getpid()), maps(server.pid)))
            until(lambda: network.ready)
        first, last = counts
        assert first[:2] == last[:2]
        assert abs(first[2] - last[2]) < 10
        assert abs(first[3] - last[3]) < 10


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def connected(pid: int) -> int:
    return Path(f"/proc/{pid}/maps").read_text().count("memfd:edge-input")


def maps(pid: int) -> int:
    return len(Path(f"/proc/{pid}/maps").read_text().splitlines())
