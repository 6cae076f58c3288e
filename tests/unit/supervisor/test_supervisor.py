"""The real supervisor with children that crash, hang, lie and flood."""

from __future__ import annotations

import os
import re
import selectors
import signal
import sys
import time
from pathlib import Path

import pytest

from edge.reports import CameraReport, Event, ServiceStatus
from edge.supervisor.child import Child
from edge.supervisor.plans import Plan
from tests.harness.fake_daemon import FakeService
from tests.harness.leftovers import children_of, is_alive
from tests.harness.service import process

QUICK = {"limits.SILENCE_S": 1.0, "limits.SLOW_SILENCE_S": 2.0, "limits.WEDGED_BEYOND_STALL_S": 0.5,
         "child.STOP_S": 1.0}  # fmt: skip


def all_run(status: ServiceStatus) -> bool:
    return status.state == "running"


def resident_kb(pid: int) -> int:
    return int(re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[0])


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_starts_and_stops_in_order(tmp_path: Path) -> None:
    with FakeService(tmp_path, cameras={"a": "work", "b": "say_environment"}) as service:
        assert service.systemd.wait_for("READY=1", 10)
        status = service.wait(all_run)
        assert [camera.camera for camera in status.cameras] == ["a", "b"]
        assert [each.name for each in status.processes] == ["inference", "keeper", "a", "b"]
        assert status.inference is not None and status.keeper is not None and status.problems == []
        service.wait(lambda _: (tmp_path / "run" / "health").read_text().startswith("ok 20"))
        # Nobody but the supervisor may speak to systemd, and nobody may dump core.
        assert "b: variables [] core (0, 0)" in service.log
        assert service.systemd.wait_for("STATUS=2 of 2 cameras record", 5)
        assert service.end(signal.SIGTERM) == 0
        assert service.systemd.wait_for("STOPPING=1", 1)
        assert re.search(r"SIGTERM: stopping\n.*stopped\n$", service.log, re.DOTALL)
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["lock"]


def test_what_crashes_is_restarted_and_others_do_not_notice(tmp_path: Path) -> None:
    with FakeService(tmp_path, cameras={"good": "work", "bad": "crash", "done": "parent"}) as service:
        status = service.wait(lambda status: process(status, "bad").restarts >= 2)
        assert "the last words of a decoder" in process(status, "bad").last_error
        assert "crashed (SIGSEGV)" in process(status, "bad").last_error
        assert process(status, "good").restarts == 0
        status = service.wait(lambda status: process(status, "bad").state == "backing_off")
        bad = next(camera for camera in status.cameras if camera.camera == "bad")
        assert bad.state == "backing_off" and "SIGSEGV" in bad.detail
        service.wait(lambda status: process(status, "done").restarts >= 1)
        # The grandchild of a killed child is killed too, and nobody stays a zombie.
        assert len(children_of(service.pid)) <= 5
        assert service.end(signal.SIGTERM) == 0


def test_what_hangs_is_killed(tmp_path: Path) -> None:
    with FakeService(tmp_path, cameras={"good": "work", "silent": "hang", "stuck": "wedge"}, limits=QUICK) as service:
        status = service.wait(lambda status: all(process(status, name).killed_hung for name in ("silent", "stuck")))
        assert "gave no sign of life for 1 s" in process(status, "silent").last_error
        assert "made no progress for 2 s" in process(status, "stuck").last_error
        assert process(status, "good").killed_hung == 0
        assert service.end(signal.SIGINT) == 0


def test_wrong_configuration_of_one_camera_is_not_tried_again_before_a_reload(tmp_path: Path) -> None:
    with FakeService(tmp_path, cameras={"good": "work", "bad": "refuse"}) as service:
        assert service.systemd.wait_for("READY=1", 10)
        status = service.wait(lambda status: process(status, "bad").state == "failed")
        assert process(status, "bad").last_error == "engine is stale; run edge-build"
        service.wait(lambda status: [camera.state for camera in status.cameras] == ["recording", "failed"])
        time.sleep(1.2)
        assert process(service.status() or status, "bad").restarts == 0
        good = process(status, "good").pid
        service.configure(cameras={"good": "work", "bad": "work"})
        service.signal(signal.SIGHUP)
        status = service.wait(lambda status: process(status, "bad").state == "running" and all_run(status))
        assert process(status, "good").pid == good


@pytest.mark.parametrize("broken", [{"cameras": {"a": "refuse", "b": "refuse"}},
                                    {"cameras": {"a": "work"}, "inference": "refuse"}])  # fmt: skip
def test_ends_with_78_when_nothing_can_run(tmp_path: Path, broken: dict[str, object]) -> None:
    with FakeService(tmp_path, **broken) as service:
        assert service.systemd.process is not None
        assert service.systemd.process.wait(10) == 78
        assert "engine is stale; run edge-build" in service.log


def test_reload_restarts_only_what_changed(tmp_path: Path) -> None:
    with FakeService(tmp_path, cameras={"same": "work", "changed": ["work", "old"], "gone": "work"}) as service:
        before = service.wait(all_run)
        service.configure(inference=["work", "told"],
                          cameras={"same": "work", "changed": ["work", "new"], "fresh": "work"})  # fmt: skip
        service.signal(signal.SIGHUP)
        after = service.wait(lambda status: [camera.detail for camera in status.cameras if camera.camera == "changed"]
                             == ["new"] and all_run(status))  # fmt: skip
        assert [camera.camera for camera in after.cameras] == ["same", "changed", "fresh"]
        for name in ("inference", "keeper", "same"):
            assert process(after, name).pid == process(before, name).pid
        assert process(after, "changed").pid != process(before, "changed").pid
        assert process(after, "changed").restarts == 0
        assert after.inference is not None and after.inference.detail == "told"
        assert "done" in after.last_reload
        assert service.systemd.wait_for("RELOADING=1\nMONOTONIC_USEC=", 1) and service.systemd.wait_for("READY=1", 1)


def test_a_bad_file_changes_nothing(tmp_path: Path) -> None:
    with FakeService(tmp_path, cameras={"a": "work"}) as service:
        before = service.wait(all_run)
        service.path.write_text("{")
        service.signal(signal.SIGHUP)
        after = service.wait(lambda status: status.last_reload)
        assert "failed, the old configuration goes on" in after.last_reload and "fake.json:1" in after.last_reload
        assert process(after, "a").pid == process(before, "a").pid
        assert "not reloaded" in service.log


def test_lies_and_floods(tmp_path: Path) -> None:
    with FakeService(tmp_path, cameras={"good": "work", "liar": "lie", "flood": "flood"}) as service:
        service.wait(lambda status: len(status.cameras) == 3 and all(each.progress > 20 for each in status.cameras))
        time.sleep(1.0)
        status = service.wait(lambda status: True)
        assert [camera.camera for camera in status.cameras] == ["good", "liar", "flood"]
        assert time.monotonic() - status.written_monotonic_s < 6.0
        assert len(service.log.splitlines()) < 200
        assert resident_kb(service.pid) < 40_000


def test_killed_supervisor_leaves_nobody(tmp_path: Path) -> None:
    with FakeService(tmp_path, cameras={"a": "work", "b": "deaf", "c": "hang"}) as service:
        service.wait(lambda status: status.state != "starting")
        left = children_of(service.pid)
        assert len(left) == 5
        os.kill(left[-1], signal.SIGSTOP)               # not even one that is stopped
        service.end(signal.SIGKILL)
        deadline_s = time.monotonic() + 2.0
        while any(map(is_alive, left)) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert [pid for pid in left if is_alive(pid)] == []


def test_restarts_leak_nothing(tmp_path: Path) -> None:
    limits = {"backoff.FIRST_S": 0.01, "backoff.LONGEST_S": 0.01}
    with FakeService(tmp_path, cameras={"a": "work", "b": "vanish", "c": "vanish"}, limits=limits) as service:
        service.wait(lambda status: process(status, "b").restarts >= 5)
        descriptors, memory = open_files(service.pid), resident_kb(service.pid)
        service.wait(lambda status: process(status, "b").restarts >= 40 and process(status, "c").restarts >= 40, 30)
        assert open_files(service.pid) <= descriptors + 8                           # two children more than before
        assert resident_kb(service.pid) < memory + 1000
        assert len(children_of(service.pid)) <= 5
        assert service.end(signal.SIGTERM) == 0


def test_what_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = []
    now_s = 100.0
    with selectors.DefaultSelector() as selector:
        child = Child(Plan("a", "m", CameraReport, None, None), selector, events.append, lambda: now_s)
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        child.start()
        assert (child.state, child.pid, child.last_error) == (
            "backing_off", None, "cannot be started: No such file or directory")  # fmt: skip
        now_s += 0.6
        child.tick()
        assert (child.state, child.restarts) == ("backing_off", 1)
        child.stop()
        assert child.state == "ended"


def test_second_signal_ends_at_once(tmp_path: Path) -> None:
    with FakeService(tmp_path, cameras={"a": "work", "b": "deaf"}) as service:
        service.wait(lambda status: len(status.cameras) == 2)
        service.signal(signal.SIGTERM)
        time.sleep(0.3)
        begun_s = time.monotonic()
        assert service.end(signal.SIGTERM, 10.0) == 130
        assert time.monotonic() - begun_s < 10.0


def test_two_daemons_on_one_directory(tmp_path: Path) -> None:
    with FakeService(tmp_path, cameras={"a": "work"}) as service:
        service.wait(all_run)
        with FakeService(tmp_path, cameras={"a": "work"}) as second:
            assert second.systemd.process is not None
            assert second.systemd.process.wait(5) == 75
            assert f"another edge-daemon (process {service.pid}) uses" in second.log
        assert service.wait(all_run).pid == service.pid


@pytest.mark.slow
def test_a_child_that_does_not_stop_is_killed_within_the_time(tmp_path: Path) -> None:
    with FakeService(tmp_path, cameras={"a": "work", "b": "deaf"}, keeper="deaf", inference="hang") as service:
        service.wait(lambda status: len(status.cameras) == 2)
        assert service.end(signal.SIGTERM, 20.0) == 0
        assert "b: did not stop within 15 s" in service.log
