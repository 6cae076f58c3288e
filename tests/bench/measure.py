"""Runs a command and measures it: wall time, processor time and the peak memory of all its processes."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 0.05
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Measurement:
    """wall_s: from start to exit. cpu_s: user and system time of all processes. peak_bytes: highest sum of the
    proportional set sizes (shared pages counted once) of the process and its descendants, sampled.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int


def measure(command: Sequence[str], environment: dict[str, str] | None = None) -> Measurement:
    """Run `command` to its end. Raises RuntimeError with the end of its output when it fails."""
    before = os.times()
    started_s = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment or dict(os.environ)
        )
        watch = _MemoryWatch(process.pid)
        watch.start()
        code = process.wait()
        wall_s = time.monotonic() - started_s
        watch.finish()
        if code:
            output.seek(0)
            text = output.read().decode("utf-8", "replace")[-2000:]
            raise RuntimeError(f"{' '.join(map(str, command))} failed with {code}:\n{text}")
    after = os.times()
    cpu_s = after.children_user - before.children_user + after.children_system - before.children_system
    return Measurement(wall_s, cpu_s, watch.peak_bytes)


class _MemoryWatch(threading.Thread):
    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._done = threading.Event()
        self.peak_bytes = 0

    def run(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self.peak_bytes = max(self.peak_bytes, sum(pss_bytes(pid) for pid in process_tree(self._pid)))

    def finish(self) -> None:
        self._done.set()
        self.join()


def process_tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    for parent in found:
        try:
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue        # it has ended
    return found


def pss_bytes(pid: int) -> int:
    """Proportional set size: shared pages are divided among those who share them."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
