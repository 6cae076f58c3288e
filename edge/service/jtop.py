"""jetson-stats as a second source about the board, in a process of its own: it may hang, raise or leak there.

    python -m edge.service.jtop         prints a `BoardReport` as JSON every few seconds

It needs jtop.service of the same version, and rights for its socket; without any of them the process ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import subprocess
import sys
import threading
import time
from typing import IO, Any

from edge.reports import BoardReport, from_plain, to_plain

INTERVAL_S = 5.0
RETRY_S = 300.0
STALE_S = 30.0


class JtopReader:
    """Keeps the newest report of the child. command: what is run as the child."""

    def __init__(self, command: tuple[str, ...] = (sys.executable, "-m", "edge.service.jtop")) -> None:
        self._command = command
        self._newest: tuple[float, BoardReport] = (float("-inf"), BoardReport())
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="jtop", daemon=True)

    @staticmethod
    def installed() -> JtopReader | None:
        """A reader where jetson-stats is installed, else None. Does not import it."""
        return JtopReader() if importlib.util.find_spec("jtop") else None

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def latest(self) -> BoardReport:
        """The newest report, empty when there is none of the last half minute. Never blocks."""
        read_s, report = self._newest
        return report if time.monotonic() - read_s < STALE_S else BoardReport()

    def stop(self) -> None:
        """Kill the child, which has nothing to lose."""
        with self._lock:
            self._stopping.set()
            if self._child is not None:
                self._child.kill()
        if self._thread.ident is not None:
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                if self._stopping.is_set():
                    return
                try:
                    self._child = subprocess.Popen(
                        self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                    )
                except OSError:
                    self._child = None
            if self._child is not None:
                with self._child as child:
                    assert child.stdout is not None
                    self._read(child.stdout)
                    child.kill()
                    with contextlib.suppress(OSError):
                        child.stdin.close() if child.stdin else None
            self._stopping.wait(RETRY_S)

    def _read(self, lines: IO[bytes]) -> None:
        while line := lines.readline(1 << 16):
            try:
                report = from_plain(json.loads(line))
            except (ValueError, RecursionError):
                return
            if isinstance(report, BoardReport):
                self._newest = (time.monotonic(), report)


def main() -> int:
    """Print reports until jtop fails or the parent, which holds the other end of our input, is gone."""
    parent_gone = threading.Thread(target=_end_with_parent, daemon=True)
    parent_gone.start()
    from jtop import jtop  # type: ignore[import-not-found, unused-ignore]

    with jtop(interval=INTERVAL_S) as board:
        while board.ok():
            print(json.dumps(to_plain(read_jtop(board))), flush=True)
    return 1


def _end_with_parent() -> None:
    import os

    sys.stdin.buffer.read()
    os._exit(0)


def read_jtop(board: Any) -> BoardReport:
    """What an open `jtop.jtop` says (jetson-stats 4.x and 7.x). What is missing or odd is left empty."""
    report = BoardReport()
    for name, sensor in _items(board, "temperature"):
        if sensor.get("online", True) and (value := _finite(sensor.get("temp"))) is not None:
            report.temperatures_c[str(name)] = value
    for _, gpu in _items(board, "gpu"):
        load = _finite(gpu.get("status", {}).get("load"))
        report.gpu_load = None if load is None else min(max(load / 100, 0.0), 1.0)
        break
    for name, memory in _items(board, "memory"):
        if name == "RAM" and (shared := _finite(memory.get("shared"))) is not None:
            report.gpu_memory_bytes = int(shared * 1024)
    for name, rail in _items(board, "power"):
        if name == "tot" and (milliwatts := _finite(rail.get("power"))) is not None:
            report.power_w = milliwatts / 1000
    with contextlib.suppress(Exception):
        report.power_mode = str(board.nvpmodel)
    for _, fan in _items(board, "fan"):
        speeds = fan.get("rpm") or []
        report.fan_rpm = int(speeds[0]) if speeds and _finite(speeds[0]) is not None else None
        break
    return report


def _items(board: Any, attribute: str) -> list[tuple[str, dict[str, Any]]]:
    try:
        found = getattr(board, attribute).items()
        return [(name, values) for name, values in found if isinstance(values, dict)]
    except Exception:       # whatever this version does not have
        return []


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


if __name__ == "__main__":
    sys.exit(main())
