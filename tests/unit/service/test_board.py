"""Telemetry is read where it is, left empty where it is not, and never waited for."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edge.reports import BoardReport, to_plain
from edge.service import board as module
from edge.service.board import AlertCounter, BoardReader, read_board
from edge.service.jtop import JtopReader
from tests.harness import fake_sysfs
from tests.harness.fake_sysfs import Board

ORIN = BoardReport(
    temperatures_c={"cpu-thermal": 48.562, "gpu-thermal": 44.0, "tj-thermal": 48.812},
    gpu_load=0.412,
    gpu_memory_bytes=805068 * 1024,
    memory_available_bytes=20000000 * 1024,
    power_w=round(19.008 * 0.5 + 5.0, 3),
    power_mode="MODE_30W",
    throttled={"oc1": 0, "oc2": 15, "oc3": 37},
    fan_rpm=2140,
)


def read(board: Board) -> BoardReport:
    return read_board(board.sysfs, board.procfs, board.system)


def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_an_orin(tmp_path: Path) -> None:
    assert read(fake_sysfs.orin(tmp_path)) == ORIN


def test_a_measured_input_is_the_power(tmp_path: Path) -> None:
    assert read(fake_sysfs.orin_nano(tmp_path)).power_w == 6.0


def test_a_computer_without_any_of_it(tmp_path: Path) -> None:
    assert read(fake_sysfs.x86(tmp_path)) == BoardReport(
        temperatures_c={"acpitz": 27.8, "acpitz#2": 29.8, "x86_pkg_temp": 52.0}, memory_available_bytes=4096000000
    )
    assert read(Board(tmp_path / "a", tmp_path / "b", tmp_path / "c")) == BoardReport()


def test_files_that_refuse_leave_their_values_empty(tmp_path: Path) -> None:
    report = read(fake_sysfs.broken(tmp_path))
    assert report == BoardReport(power_w=None, throttled={"oc2": 15, "oc3": 37})


def test_this_machine() -> None:
    assert read(Board(Path("/sys"), Path("/proc"), Path("/"))).memory_available_bytes


def test_beginnings_of_throttling_are_counted(tmp_path: Path) -> None:
    board, counter = fake_sysfs.orin(tmp_path), AlertCounter()
    state = board.sysfs / "class/thermal/cooling_device1/cur_state"
    counts = []
    for value in ("0", "1", "2", "0", "1"):
        state.write_text(value)
        counts.append(counter.look(board.sysfs)["cpu-throttle-alert"])
    assert counts == [0, 1, 1, 1, 2]
    assert counter.look(board.sysfs) == {"cpu-throttle-alert": 2, "hot-surface-alert": 0}


def test_a_hanging_file_only_makes_the_report_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_INTERVAL_S", 0.05)
    monkeypatch.setattr(module, "STALE_S", 0.5)
    board = fake_sysfs.orin(tmp_path)
    reader = BoardReader(board.sysfs, board.procfs, board.system)
    assert reader.latest() == BoardReport()
    reader.start()
    try:
        assert until(lambda: reader.latest().fan_rpm == 2140)
        stuck = board.sysfs / "class/hwmon/hwmon4/rpm"
        fake_sysfs.hang(stuck)
        assert until(lambda: reader.latest() == BoardReport(), 5.0)
        started_s = time.monotonic()
        reader.latest()
        reader.stop(timeout_s=0.1)
        assert time.monotonic() - started_s < 0.5
    finally:
        assert until(lambda: not _release(stuck, reader))


def _release(stuck: Path, reader: BoardReader) -> bool:
    """Let the reader go on; True while it still hangs."""
    fake_sysfs.let_go(stuck)
    reader.stop(timeout_s=0.05)
    return reader._thread.is_alive()


def jtop_reader(*lines: str, then: str = "time.sleep(60)") -> JtopReader:
    program = f"import time\nfor line in {lines!r}: print(line, flush=True)\n{then}"
    return JtopReader((sys.executable, "-c", program))


def test_jtop_fills_in_what_sysfs_does_not_say(tmp_path: Path) -> None:
    board = fake_sysfs.x86(tmp_path)
    said = BoardReport(temperatures_c={"other": 1.0}, gpu_load=0.5, power_w=7.0)
    reader = BoardReader(board.sysfs, board.procfs, board.system, jtop_reader(json.dumps(to_plain(said))))
    reader.start()
    try:
        assert until(lambda: reader.latest().power_w == 7.0 and bool(reader.latest().temperatures_c))
        assert reader.latest().gpu_load == 0.5 and "other" not in reader.latest().temperatures_c
    finally:
        reader.stop()


@pytest.mark.parametrize(
    ("lines", "then"),
    [((), "time.sleep(60)"), ((), "raise SystemExit(1)"), (("nonsense",), "time.sleep(60)"),
     (('{"type": "Fatal", "text": "x", "exit_code": 1}',), "raise SystemExit"), (("[" * 100_000,), "time.sleep(60)")],
    ids=["hangs", "ends", "nonsense", "another report", "deep"],
)  # fmt: skip
def test_a_bad_jtop_does_not_matter(lines: tuple[str, ...], then: str) -> None:
    reader = jtop_reader(*lines, then=then)
    reader.start()
    time.sleep(0.3)
    assert reader.latest() == BoardReport()
    started_s = time.monotonic()
    reader.stop()
    assert time.monotonic() - started_s < 1.0


FAKE_JTOP = """
class jtop:
    temperature = {"cpu": {"temp": 51.5, "online": True}, "cv0": {"temp": -256, "online": False}}
    gpu = {"gpu": {"status": {"load": 73.0}}}
    memory = {"RAM": {"shared": 2048}, "SWAP": {}}
    power = {"rail": {}, "tot": {"power": 12500}}
    nvpmodel = "MAXN"
    @property
    def fan(self): raise RuntimeError("no fan")
    def __init__(self, interval): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def ok(self):
        import time; time.sleep(0.05); return True
"""


def test_the_child_reads_an_installed_jtop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jtop.py").write_text(FAKE_JTOP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path) + os.pathsep + str(Path(__file__).parents[3]))
    reader = JtopReader()
    reader.start()
    try:
        assert until(lambda: reader.latest() != BoardReport())
        assert reader.latest() == BoardReport(
            temperatures_c={"cpu": 51.5}, gpu_load=0.73, gpu_memory_bytes=2 << 20, power_w=12.5, power_mode="MAXN"
        )
    finally:
        reader.stop()


def test_without_jtop_there_is_no_reader() -> None:
    assert JtopReader.installed() is None
