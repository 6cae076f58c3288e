"""P7: systemd's watchdog is told the truth. Read from its socket, with real processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.harness.fake_daemon import FakeService
from tests.harness.rtspd import RtspServer
from tests.harness.service import process
from tests.harness.site import Site, written

QUICK = {"limits.SILENCE_S": 1.0, "limits.SLOW_SILENCE_S": 2.0, "limits.INFERENCE_WEDGED_S": 1.0,
         "limits.WEDGED_BEYOND_STALL_S": 0.5}  # fmt: skip


def test_all_is_well(tmp_path: Path) -> None:
    with FakeService(tmp_path, watchdog_s=1.5, cameras={"a": "work", "b": "work"}) as service:
        assert service.systemd.wait_for("READY=1", 10)
        assert not service.systemd.misses_a_ping(4.0)
        pings = service.systemd.said("WATCHDOG=1")
        assert 6 <= len(pings) <= 12                        # at a third of the time
        assert service.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("name", ["inference", "a", "keeper"])
def test_p7_a_stopped_process_is_killed_and_replaced(tmp_path: Path, name: str) -> None:
    with FakeService(tmp_path, watchdog_s=1.5, cameras={"a": "work", "b": "work"}, limits=QUICK) as service:
        before = {each.name: each.pid for each in service.wait(lambda status: status.state == "running").processes}
        pid = before[name]
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        stopped_s = time.monotonic()
        service.wait(lambda status: any(each.name == name and each.killed_hung and each.state == "running"
                                        for each in status.processes))  # fmt: skip
        assert time.monotonic() - stopped_s < 20.0
        after = {each.name: each.pid for each in service.wait(lambda status: status.state == "running").processes}
        assert {key for key in before if before[key] != after[key]} == {name}
        assert not service.systemd.misses_a_ping(3.0)       # it was dealt with: no reason to end the others


def test_p7_a_stopped_supervisor_misses_its_ping(tmp_path: Path) -> None:
    with FakeService(tmp_path, watchdog_s=1.0, cameras={"a": "work"}) as service:
        assert service.systemd.wait_for("READY=1", 10)
        service.signal(signal.SIGSTOP)
        assert service.systemd.misses_a_ping(5.0)
        assert service.systemd.process is not None
        assert service.systemd.process.wait(5) == -signal.SIGABRT


def test_p7_no_ping_when_the_inference_process_hangs_again_and_again(tmp_path: Path) -> None:
    hangs = QUICK | {"limits.SILENCE_S": 0.3, "backoff.LONGEST_S": 0.5}
    with FakeService(tmp_path, watchdog_s=1.5, cameras={"a": "work"}, inference="hang", limits=hangs) as service:
        assert service.systemd.wait_for("WATCHDOG=1", 10)
        assert service.systemd.misses_a_ping(20.0)
        assert "hung 5 times within 10 minutes: the service manager is no longer told" in service.log


def test_waiting_cameras_are_no_reason_to_end_the_service(tmp_path: Path) -> None:
    with FakeService(tmp_path, watchdog_s=1.5, cameras={"a": "work", "b": "crash", "c": "refuse"}) as service:
        assert service.systemd.wait_for("READY=1", 10)
        assert not service.systemd.misses_a_ping(4.0)
        status = service.wait(lambda status: any(each.restarts for each in status.processes))
        assert status.state == "degraded"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_p7_real_processes_that_are_stopped(tmp_path: Path, default_model: Path, rtsp_sample: RtspServer) -> None:
    site = Site(tmp_path, default_model, rtsp_sample)
    site.configure(porch="", yard="")
    with site.service(watchdog_s=6.0) as service:
        service.wait(written("porch", 1), 40)
        before = service.wait(written("yard", 1), 40)
        for name in ("inference", "porch"):
            pid = process(before, name).pid
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
        assert not service.systemd.misses_a_ping(20.0)
        status = service.wait(lambda status: status.state == "running", 20)
        assert [process(status, name).killed_hung for name in ("inference", "porch", "yard", "keeper")] == [1, 1, 0, 0]
        yard = status.cameras[1]
        assert sum(yard.whole_frames.values()) > 100        # no detection for a quarter of a minute
        service.wait(lambda status: status.cameras[1].faces > yard.faces and written("porch", 10)(status), 20)
        assert service.end(signal.SIGTERM) == 0
    assert site.visible_faces("porch") == site.visible_faces("yard") == 0
