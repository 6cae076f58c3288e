"""Cameras, a disk, and the daemon under test, as a service manager would run it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.campaign import camera
from tests.campaign.disk import Disk
from tests.campaign.proxy import SwitchedProxy
from tests.harness import faulty_inference
from tests.harness.rtspd import RtspServer

DISK_BYTES = 160 << 20
FLOOR_BYTES = 24 << 20
STOP_LIMIT_S = 20.0
CONFIG = """
service:
  runtime_dir: {runtime}
  metrics_port: null
defaults:
  stall_timeout: 3s
  look_ahead: 200ms
  detect: {{scales: [320], model: {model}, backend: onnxruntime}}
  recording: {{directory: {root}, segment: {segment}s}}
  retention: {{disk_floor: {floor_m}M, max_age: 1h}}
cameras:
{cameras}
"""


@dataclass(frozen=True, slots=True)
class Child:
    """A process of the daemon. name: as in `edge.reports.ProcessReport`."""

    name: str
    pid: int


class World:
    """Starts everything in `folder` and takes it down again.

    clip: played by all cameras. model: of the detector. log: what the daemon says goes there. last_fault: what was
    injected last. stops: seconds that each SIGTERM took; abnormal: exit codes after SIGTERM other than 0.
    """

    def __init__(self, folder: Path, clip: Path, model: str, cameras: int, seed: int, segment_s: float = 5.0) -> None:
        self.folder, self._model, self._segment_s, self._seed = folder, model, segment_s, seed
        self.disk = Disk(folder, DISK_BYTES)
        self.runtime = folder / "run"
        self.faults_file, self.clock_file = folder / "faults.json", folder / "clock.json"
        self.servers = [RtspServer({"clip": clip}) for _ in range(cameras)]
        self.proxies: list[SwitchedProxy] = []
        self.last_fault = ""
        self.stops: list[float] = []
        self.abnormal: list[int] = []
        self._stack = ExitStack()
        self._daemon: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._changed = 0

    def __enter__(self) -> World:
        with ExitStack() as stack:
            stack.enter_context(self.disk)
            for number, server in enumerate(self.servers):
                stack.enter_context(server)
                self.proxies.append(stack.enter_context(SwitchedProxy(server.port, self._seed + number)))
            self._log = stack.enter_context((self.folder / "daemon.log").open("ab"))
            self.write_config()
            stack.callback(self.terminate)
            self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exit_: Any) -> None:
        self._stack.__exit__(*exit_)

    @property
    def cameras(self) -> list[str]:
        """Their names, in order."""
        return [f"cam{number}" for number in range(len(self.servers))]

    def write_config(self, broken: bool = False, changed_camera: int | None = None) -> None:
        """Write the configuration; a changed camera gets other mask settings than before."""
        self._changed += changed_camera is not None
        lines = []
        for number, name in enumerate(self.cameras):
            port = self.proxies[number].port
            lines.append(f"  {name}:\n    source: {{rtsp: {{url: 'rtsp://127.0.0.1:{port}/clip'}}}}")
            if number == changed_camera:
                lines.append(f"    mask: {{blocks: {3 + self._changed % 2}}}")
        if broken:
            lines.append("    retenshun: 5")
        text = CONFIG.format(runtime=self.runtime, model=self._model, root=self.disk.root, segment=self._segment_s,
                             floor_m=FLOOR_BYTES >> 20, cameras="\n".join(lines))
        (self.folder / "edge.yaml").write_text(text)

    def start(self) -> None:
        """Start the daemon, as the service manager does."""
        assert self._daemon is None and self._log is not None
        environment = os.environ | {
            faulty_inference.VARIABLE: str(self.faults_file),
            camera.VARIABLE: str(self.clock_file),
        }
        self._daemon = subprocess.Popen(
            [sys.executable, "-m", "tests.campaign.daemon", "--config", str(self.folder / "edge.yaml")],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env=environment)

    @property
    def pid(self) -> int:
        """Of the supervisor."""
        assert self._daemon is not None
        return self._daemon.pid

    def is_running(self) -> bool:
        """Whether the supervisor is there."""
        return self._daemon is not None and self._daemon.poll() is None

    def status(self) -> dict[str, Any]:
        """The daemon's own account of itself; empty while it has none."""
        try:
            found: dict[str, Any] = json.loads((self.runtime / "status.json").read_text())
        except (OSError, ValueError):
            return {}
        return found if found.get("pid") == self.pid else {}

    def child(self, name: str) -> Child | None:
        """A process of the daemon that runs now; its pid is one of the supervisor's own children."""
        for process in self.status().get("processes", []):
            if process["name"] == name and process["pid"] in children_of(self.pid):
                return Child(name, process["pid"])
        return None

    def terminate(self) -> None:
        """SIGTERM and wait; what is left after the limit is killed, and counts as a failure."""
        if self._daemon is None:
            return
        started_s = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            self._daemon.send_signal(signal.SIGTERM)
        try:
            code = self._daemon.wait(STOP_LIMIT_S + 5)
        except subprocess.TimeoutExpired:
            self._daemon.kill()
            code = self._daemon.wait()
        self.stops.append(time.monotonic() - started_s)
        if code != 0:
            self.abnormal.append(code)
        self._daemon = None

    def kill(self) -> list[int]:
        """SIGKILL to the supervisor; the pids of children that are still there two seconds later: none should be."""
        assert self._daemon is not None
        left = children_of(self._daemon.pid)
        self._daemon.kill()
        self._daemon.wait()
        self._daemon = None
        deadline_s = time.monotonic() + 2.0
        while (left := [pid for pid in left if _is_alive(pid)]) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        return left

    def reload(self) -> None:
        """SIGHUP."""
        os.kill(self.pid, signal.SIGHUP)


def children_of(pid: int) -> list[int]:
    """Direct children of a process."""
    with contextlib.suppress(OSError):
        return [int(child) for task in Path(f"/proc/{pid}/task").iterdir()
                for child in (task / "children").read_text().split()]
    return []


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
