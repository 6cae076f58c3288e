"""However a run is stopped: nothing half-written has its final name, no process is left, and no traceback is shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def start(sample: Path, output: Path, model: Path) -> subprocess.Popen[str]:
    # The tests themselves may run under nohup, whose children ignore SIGHUP.
    program = ["env", "--default-signal=HUP", sys.executable, "-m", "edge.cli.run"]
    command = [*program, str(sample), "-o", str(output), "--json", "--model", str(model)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], event: str) -> list[str]:
    assert process.stdout is not None
    for line in process.stdout:
        if f'"event": "{event}"' in line:
            break
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def check_nothing_left(process: subprocess.Popen[str], children: list[str], folder: Path) -> None:
    _, said = process.communicate(timeout=30)
    assert "Traceback" not in said
    deadline_s = time.monotonic() + 10
    while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert {each.name for each in folder.iterdir()} <= {"out.mp4.part"}


@pytest.mark.parametrize("event", ["begin", "started", "progress"])
@pytest.mark.parametrize("number", STOPS)
def test_a_stopped_file(sample: Path, default_model: Path, tmp_path: Path, number: signal.Signals, event: str) -> None:
    process = start(sample, tmp_path / "out.mp4", default_model)
    children = wait_for(process, event)
    process.send_signal(number)
    check_nothing_left(process, children, tmp_path)
    assert process.returncode == 130


def test_stopped_twice(sample: Path, default_model: Path, tmp_path: Path) -> None:
    process = start(sample, tmp_path / "out.mp4", default_model)
    children = wait_for(process, "progress")
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    check_nothing_left(process, children, tmp_path)
    assert process.returncode in (1, 130)


def test_nohup_is_respected(sample: Path, default_model: Path, tmp_path: Path) -> None:
    command = ["nohup", sys.executable, "-m", "edge.cli.run", str(sample), "-o", str(tmp_path / "out.mp4"), "--json"]
    process = subprocess.Popen(
        [*command, "--model", str(default_model), "--scales", "320"], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )   # fmt: skip
    wait_for(process, "started")
    os.kill(process.pid, signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 0
