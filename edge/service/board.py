"""What the board says about itself: temperatures, load, power, throttling. Files of sysfs and procfs only.

Paths are those of L4T 36 (JetPack 6) and of plain Linux; a file that is missing or refuses leaves its value empty.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from pathlib import Path

from edge.reports import BoardReport
from edge.service.jtop import JtopReader

READ_INTERVAL_S = 5.0
STALE_S = 30.0
_GPU_NAME = re.compile(r"gpu|.*\.(gpu|ga10b|gv11b|gp10b)")
# Whole-module inputs of Orin NX and Nano, and of older modules: the other rails are parts of them.
_TOTAL_RAILS = ("VDD_IN", "POM_5V_IN")
# On AGX Orin this one is fed from VIN_SYS_5V0 ("Platform Power and Performance" in NVIDIA's Jetson Linux guide).
_PART_OF_5V = "VDDQ_VDD2_1V8AO"


class BoardReader:
    """Reads the board every few seconds in a thread of its own.

    A read that hangs, as drivers of broken sensors do, hangs only that thread: `latest` then is empty.
    sysfs_root, procfs_root, system_root: where these file systems are; others for tests.
    jtop: fills in what sysfs does not say; None for none.
    """

    def __init__(
        self, sysfs_root: Path = Path("/sys"), procfs_root: Path = Path("/proc"), system_root: Path = Path("/"),
        jtop: JtopReader | None = None,
    ) -> None:  # fmt: skip
        self._sysfs, self._procfs, self._system = sysfs_root, procfs_root, system_root
        self._jtop = jtop
        self._alerts = AlertCounter()
        self._newest: tuple[float, BoardReport] = (float("-inf"), BoardReport())
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="board", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()
        if self._jtop is not None:
            self._jtop.start()

    def latest(self) -> BoardReport:
        """The newest complete look, empty when there is none of the last half minute. Never blocks."""
        read_s, report = self._newest
        report = report if time.monotonic() - read_s < STALE_S else BoardReport()
        return report if self._jtop is None else _filled(report, self._jtop.latest())

    def stop(self, timeout_s: float = 1.0) -> None:
        """End the thread, or leave it behind when it hangs: it ends with the process."""
        self._stopping.set()
        if self._jtop is not None:
            self._jtop.stop()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            report = read_board(self._sysfs, self._procfs, self._system)
            report.throttled |= self._alerts.look(self._sysfs)
            self._newest = (time.monotonic(), report)
            self._stopping.wait(READ_INTERVAL_S)


class AlertCounter:
    """Thermal throttling has no counter in the kernel, only a state: this counts how often it was seen to begin."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._active: set[str] = set()

    def look(self, sysfs: Path) -> dict[str, int]:
        """Beginnings seen so far, by alert: ``cpu-throttle-alert``, ``hot-surface-alert`` and their like."""
        active = set()
        for device in _folders(sysfs / "class/thermal", "cooling_device*"):
            name = _text(device / "type")
            if name.endswith("-alert"):
                self._counts.setdefault(name, 0)
                if _number(device / "cur_state"):
                    active.add(name)
        for name in active - self._active:
            self._counts[name] += 1
        self._active = active
        return dict(self._counts)


def read_board(sysfs: Path, procfs: Path, system: Path) -> BoardReport:
    """One look at everything; takes some milliseconds, more where sensors hang on a slow bus."""
    memory = _memory(procfs)
    return BoardReport(
        temperatures_c=_temperatures(sysfs),
        gpu_load=_gpu_load(sysfs),
        gpu_memory_bytes=memory.get("NvMapMemUsed"),    # only where CPU and GPU share it
        memory_available_bytes=memory.get("MemAvailable"),
        power_w=_power_w(sysfs),
        power_mode=_power_mode(system),
        throttled=_over_current(sysfs),
        fan_rpm=_fan_rpm(sysfs),
    )


def _filled(report: BoardReport, other: BoardReport) -> BoardReport:
    empty = {name: getattr(other, name) for name in BoardReport.__slots__ if getattr(report, name) in (None, "", {})}
    return replace(report, **empty)


def _temperatures(sysfs: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for zone in _folders(sysfs / "class/thermal", "thermal_zone*"):
        name, value = _text(zone / "type"), _number(zone / "temp")
        # A sensor that is powered down says EAGAIN, or -256 degrees.
        if name and value is not None and -100_000 < value < 300_000:
            number = sum(each.partition("#")[0] == name for each in found) + 1
            found[name if number == 1 else f"{name}#{number}"] = value / 1000
    return found


def _gpu_load(sysfs: Path) -> float | None:
    for device in _folders(sysfs / "class/devfreq", "*"):
        if _GPU_NAME.fullmatch(device.name) and (load := _number(device / "device/load")) is not None:
            return min(max(load / 1000, 0.0), 1.0)
    return None


def _power_w(sysfs: Path) -> float | None:
    """Of the module: its input where that is measured, else the sum of the rails."""
    rails: dict[str, float] = {}
    for chip in _hwmon(sysfs, "ina3221"):
        for channel in (1, 2, 3):       # in7 is a sum of shunt voltages
            name = _text(chip / f"in{channel}_label")
            volts_m, amperes_m = _number(chip / f"in{channel}_input"), _number(chip / f"curr{channel}_input")
            if name and "NC" not in name and volts_m is not None and amperes_m is not None:
                rails[name] = volts_m * amperes_m / 1e6
    total = next((rails[name] for name in _TOTAL_RAILS if name in rails), None)
    if total is None and rails:
        total = sum(watts for name, watts in rails.items() if name != _PART_OF_5V or "VIN_SYS_5V0" not in rails)
    return None if total is None else round(total, 3)


def _over_current(sysfs: Path) -> dict[str, int]:
    """``oc1`` under-voltage, ``oc2`` average and ``oc3`` instantaneous over-current of tegra234, events since boot."""
    found = {}
    for chip in _hwmon(sysfs, "soctherm_oc"):
        for number in range(1, 7):
            if (count := _number(chip / f"oc{number}_event_cnt")) is not None:
                found[f"oc{number}"] = count
    return found


def _fan_rpm(sysfs: Path) -> int | None:
    for chip in (*_hwmon(sysfs, "pwm_tach"), *_hwmon(sysfs, "pwmfan")):
        for name in ("rpm", "fan1_input"):
            if (value := _number(chip / name)) is not None:
                return value
    return None


def _memory(procfs: Path) -> dict[str, int]:
    """Fields of /proc/meminfo in bytes."""
    lines = re.findall(r"^(\w+):\s+(\d{1,15}) kB$", _text(procfs / "meminfo"), re.MULTILINE)
    return {name: int(value) * 1024 for name, value in lines}


def _power_mode(system: Path) -> str:
    """Name of nvpmodel's mode, its number where the table does not name it."""
    mode = re.search(r"pmode:(\d{1,6})", _text(system / "var/lib/nvpmodel/status"))
    if mode is None:
        return ""
    table = _text(system / "etc/nvpmodel.conf")
    name = re.search(rf"<\s*POWER_MODEL\s+ID=0*{int(mode[1])}\s+NAME=(\S+)\s*>", table)
    return name[1] if name else str(int(mode[1]))


def _hwmon(sysfs: Path, name: str) -> list[Path]:
    return [chip for chip in _folders(sysfs / "class/hwmon", "hwmon*") if _text(chip / "name").startswith(name)]


def _folders(parent: Path, pattern: str) -> list[Path]:
    try:
        return sorted(parent.glob(pattern), key=lambda each: (len(each.name), each.name))
    except OSError:
        return []


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None


def _text(path: Path) -> str:
    """What a file says, up to 64 KiB; nothing where it refuses (EIO, EAGAIN, EACCES, or it does not exist)."""
    try:
        with path.open("rb") as file:
            return (file.read(1 << 16) or b"").decode(errors="replace").strip("\0 \n")
    except OSError:
        return ""
