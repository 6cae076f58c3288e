"""Trees that look like /sys, /proc and / of a board, in folders; and files that misbehave as those of drivers do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Board:
    """Where a made-up board is."""

    sysfs: Path
    procfs: Path
    system: Path


ORIN_SYS = {
    # L4T 36 on an AGX Orin; zones without power say -256 degrees, or EAGAIN
    "class/thermal/thermal_zone0": {"type": "cpu-thermal", "temp": "48562"},
    "class/thermal/thermal_zone1": {"type": "gpu-thermal", "temp": "44000"},
    "class/thermal/thermal_zone2": {"type": "cv0-thermal", "temp": "-256000"},
    "class/thermal/thermal_zone10": {"type": "tj-thermal", "temp": "48812"},
    "class/thermal/cooling_device0": {"type": "pwm-fan", "cur_state": "3"},
    "class/thermal/cooling_device1": {"type": "cpu-throttle-alert", "cur_state": "0"},
    "class/thermal/cooling_device2": {"type": "hot-surface-alert", "cur_state": "0"},
    "class/devfreq/15480000.nvdec": {"device/load": "1000"},
    "class/devfreq/17000000.gpu": {"cur_freq": "1300500000", "device/load": "412"},
    "class/hwmon/hwmon0": {"name": "tmp451", "temp1_input": "40000"},
    "class/hwmon/hwmon1": {
        "name": "ina3221", "in1_label": "VDD_GPU_SOC", "in1_input": "19008", "curr1_input": "400",
        "in2_label": "VDD_CPU_CV", "in2_input": "19008", "curr2_input": "100",
        "in3_label": "VIN_SYS_5V0", "in3_input": "5000", "curr3_input": "1000",
        "in7_label": "sum of shunt voltages", "in7_input": "9",
    },
    "class/hwmon/hwmon2": {
        "name": "ina3221", "in1_label": "NC", "in1_input": "5000", "curr1_input": "9000",
        "in2_label": "VDDQ_VDD2_1V8AO", "in2_input": "5000", "curr2_input": "300",
    },
    "class/hwmon/hwmon3": {
        "name": "soctherm_oc", "oc1_event_cnt": "0", "oc1_throt_en": "1", "oc2_event_cnt": "15", "oc3_event_cnt": "37",
    },
    "class/hwmon/hwmon4": {"name": "pwm_tach", "rpm": "2140"},
}  # fmt: skip
ORIN_MEMINFO = "MemTotal:   30697544 kB\nMemAvailable:   20000000 kB\nNvMapMemUsed:   805068 kB\nHugePages_Free: 0\n"
ORIN_NVPMODEL = (
    "< POWER_MODEL ID=0 NAME=MAXN >\nCPU_ONLINE CORE_0 1\n< POWER_MODEL ID=2 NAME=MODE_30W >\nCPU_ONLINE CORE_0 1\n"
)


def orin(root: Path) -> Board:
    """A Jetson AGX Orin with JetPack 6."""
    board = _board(root, ORIN_SYS, ORIN_MEMINFO)
    _write(board.system, {"var/lib/nvpmodel/status": "pmode:0002 fmode:quiet", "etc/nvpmodel.conf": ORIN_NVPMODEL})
    return board


def orin_nano(root: Path) -> Board:
    """A module whose input is measured: the other rails are parts of it."""
    rails = {
        "name": "ina3221", "in1_label": "VDD_IN", "in1_input": "5000", "curr1_input": "1200",
        "in2_label": "VDD_CPU_GPU_CV", "in2_input": "5000", "curr2_input": "400",
    }  # fmt: skip
    return _board(root, {"class/hwmon/hwmon1": rails}, ORIN_MEMINFO)


def x86(root: Path) -> Board:
    """An ordinary computer."""
    zones = {
        "class/thermal/thermal_zone0": {"type": "acpitz", "temp": "27800"},
        "class/thermal/thermal_zone1": {"type": "acpitz", "temp": "29800"},
        "class/thermal/thermal_zone2": {"type": "x86_pkg_temp", "temp": "52000"},
        "class/thermal/cooling_device0": {"type": "Processor", "cur_state": "1"},
        "class/hwmon/hwmon0": {"name": "nvme", "temp1_input": "40000"},
    }
    return _board(root, zones, "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n")


def broken(root: Path) -> Board:
    """An Orin on which hardly anything can be read: I/O errors, folders for files, nonsense, endless files."""
    board = orin(root)
    thermal, hwmon = board.sysfs / "class/thermal", board.sysfs / "class/hwmon"
    fail(thermal / "thermal_zone0/temp")
    (thermal / "thermal_zone1/temp").write_bytes(b"\xff\xfe\0 not a number")
    (thermal / "thermal_zone10/temp").write_text("9" * 100_000)
    _replace_by_folder(board.sysfs / "class/devfreq/17000000.gpu/device/load")
    fail(hwmon / "hwmon1/in1_input")
    (hwmon / "hwmon1/curr2_input").write_text("")
    (hwmon / "hwmon1/in3_label").unlink()
    (hwmon / "hwmon2/in2_input").write_text("12 V")
    fail(hwmon / "hwmon3/oc1_event_cnt")
    (hwmon / "hwmon4/rpm").write_text("-\n")
    (board.procfs / "meminfo").write_text("MemAvailable: many kB\n")
    (board.system / "var/lib/nvpmodel/status").write_text("pmode:")
    return board


def fail(path: Path) -> None:
    """Make reading a file end in EIO."""
    path.unlink()
    path.symlink_to("/proc/self/mem")       # proc(5): nothing is mapped at its beginning


def hang(path: Path) -> None:
    """Make opening a file block until `let_go`."""
    path.unlink()
    os.mkfifo(path)


def let_go(path: Path) -> None:
    """End the wait of whoever opened what `hang` made."""
    os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))


def _board(root: Path, sysfs: Mapping[str, Mapping[str, str]], meminfo: str) -> Board:
    board = Board(root / "sys", root / "proc", root)
    for folder, files in sysfs.items():
        _write(board.sysfs / folder, files)
    _write(board.procfs, {"meminfo": meminfo})
    return board


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n")


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
