"""edge-daemon from its configuration to files: real RTSP cameras, real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.harness.leftovers import children_of, is_alive
from tests.harness.rtspd import RtspServer
from tests.harness.service import process
from tests.harness.site import COMMAND, Site, written


@pytest.fixture
def site(tmp_path: Path, default_model: Path, rtsp_sample: RtspServer) -> Site:
    return Site(tmp_path, default_model, rtsp_sample)


def test_two_cameras_are_recorded_and_masked(site: Site) -> None:
    site.configure(porch="", yard="mask: {method: solid}")
    with site.service(watchdog_s=6.0) as service:
        assert service.systemd.wait_for("READY=1", 30)
        service.wait(written("porch", 1), 40)
        status = service.wait(written("yard", 1), 40)
        assert status.inference is not None and status.inference.clients >= 2
        assert not service.systemd.misses_a_ping(10.0)
        assert service.wait(lambda status: status.state == "running", 10).problems == []
        begun_s = time.monotonic()
        assert service.end(signal.SIGTERM) == 0
        assert time.monotonic() - begun_s < 20.0
    assert site.leftovers() == []
    for camera in ("porch", "yard"):
        frames = site.frames(camera)
        assert len(frames) > 100 and not any(frames)
        sidecars = [json.loads(path.with_suffix(".json").read_text()) for path in site.recordings(camera)]
        assert sum(each["faces"] for each in sidecars) > 50


def test_killed_supervisor_leaves_nobody(site: Site) -> None:
    site.configure(porch="")
    with site.service() as service:
        service.wait(written("porch", 1), 40)
        left = children_of(service.pid)
        assert len(left) == 3
        service.end(signal.SIGKILL)
        deadline_s = time.monotonic() + 2.0
        while any(map(is_alive, left)) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert [pid for pid in left if is_alive(pid)] == []
    with site.service() as service:                         # and starts again on what was left
        service.wait(written("porch", 1), 40)
        assert service.end(signal.SIGTERM) == 0
    assert site.leftovers() == []


def test_without_inference_whole_frames_are_masked_until_it_is_back(site: Site) -> None:
    site.configure(porch="")
    with site.service() as service:
        status = service.wait(written("porch", 10), 40)
        pid = process(status, "inference").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        status = service.wait(lambda status: sum(status.cameras[0].whole_frames.values()) > 0, 10)
        status = service.wait(lambda status: process(status, "inference").restarts == 1
                              and status.cameras[0].state == "recording" and status.state == "running", 20)  # fmt: skip
        faces = status.cameras[0].faces
        service.wait(lambda status: status.cameras[0].faces > faces, 20)
        assert process(status, "porch").restarts == 0
        assert service.end(signal.SIGTERM) == 0


def test_reload(site: Site) -> None:
    site.configure(porch="", yard="")
    with site.service() as service:
        service.wait(written("porch", 1), 40)
        before = service.wait(written("yard", 1), 40)
        site.configure(porch="", yard="mask: {blocks: 3}")
        service.signal(signal.SIGHUP)
        after = service.wait(lambda status: process(status, "yard").pid != process(before, "yard").pid
                             and written("yard", 1)(status), 40)  # fmt: skip
        for name in ("inference", "keeper", "porch"):
            assert process(after, name).pid == process(before, name).pid
        site.config.write_text(site.config.read_text() + "    retenshun: 5\n")
        service.signal(signal.SIGHUP)
        status = service.wait(lambda status: "failed" in status.last_reload)
        assert "retenshun" in status.last_reload and "retenshun" in service.log
        assert process(status, "yard").pid == process(after, "yard").pid
        assert service.end(signal.SIGTERM) == 0


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "edge.yaml"
    path.write_text("service: {port: 1}\ncameras:\n  porch:\n    source: {file: {path: /clip.mp4}}\n    audio: keep\n")
    return path


@pytest.mark.parametrize("more", [(), ("--check",)])
def test_a_wrong_configuration_is_refused_with_all_faults(wrong: Path, more: tuple[str, ...]) -> None:
    done = run(str(wrong), *more)
    assert done.returncode == 78
    first, second = done.stderr.splitlines()[:2]
    assert first.startswith(f"edge-daemon: {wrong}:1: service: unknown key \"port\"")
    assert second.startswith(f"edge-daemon: {wrong}:5: ") and "audio" in second


def test_a_missing_configuration(tmp_path: Path) -> None:
    done = run(str(tmp_path / "edge.yaml"))
    assert done.returncode == 78 and "edge.yaml" in done.stderr and len(done.stderr.splitlines()) == 1


def test_check(site: Site) -> None:
    site.configure(porch="")
    done = run(str(site.config), "--check")
    assert done.returncode == 0, done.stderr
    site.configure(porch="detect: {model: /nowhere.onnx}", yard="recording: {directory: /nowhere}")
    done = run(str(site.config), "--check")
    assert done.returncode == 78
    assert "/nowhere.onnx" in done.stderr and "/nowhere" in done.stderr
