"""How fast the GPU and its memory are clocked while they work: times mean little without it.

A Jetson tells through sysfs; other machines through ``nvidia-smi``, where that is there. Neither needs NVML.
"""

from __future__ import annotations

import contextlib
import re
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SAMPLES = 5
SMI = ("nvidia-smi", "--query-gpu=clocks.sm,clocks.mem", "--format=csv,noheader,nounits", "--id=0")
SMI_TIMEOUT_S = 5.0
# `17000000.gpu` on JetPack 6, `17000000.ga10b` before; Thor has one per part of the GPU, such as `gpu-gpc-0`.
GPU_NODE = re.compile(r"(\.|^)(gpu|ga10b|gv11b|gp10b)(-gpc-?\d*)?$")
# Only root may read it.
MEMORY_RATE = "sys/kernel/debug/bpmp/debug/clk/emc/rate"


@dataclass(frozen=True, slots=True)
class Clocks:
    """Megahertz; None where the machine does not say. gpu_mhz: of the multiprocessors."""

    gpu_mhz: float | None = None
    memory_mhz: float | None = None


def clocks_under_load(work: Callable[[], object], root: Path = Path("/"), smi: tuple[str, ...] = SMI) -> Clocks:
    """Clocks while `work` runs again and again; an idle GPU is clocked down within a moment.

    work: something short that keeps the GPU busy. root: of the file system that is asked. smi: command.
    """
    node = _devfreq(root)
    if node is not None:
        return _from_sysfs(work, node, root / MEMORY_RATE)
    return _from_smi(work, smi)


def _devfreq(root: Path) -> Path | None:
    with contextlib.suppress(OSError):
        for folder in sorted((root / "sys/class/devfreq").iterdir()):
            if GPU_NODE.search(folder.name) and (folder / "cur_freq").is_file():
                return folder / "cur_freq"
    return None


def _from_sysfs(work: Callable[[], object], gpu: Path, memory: Path) -> Clocks:
    seen: list[tuple[float | None, float | None]] = []
    for _ in range(SAMPLES):
        work()
        seen.append((_mhz(gpu), _mhz(memory)))
    return Clocks(_median([one for one, _ in seen]), _median([other for _, other in seen]))


def _from_smi(work: Callable[[], object], smi: tuple[str, ...]) -> Clocks:
    try:
        process = subprocess.Popen(
            smi, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError:
        return Clocks()
    with process:
        deadline_s = time.monotonic() + SMI_TIMEOUT_S
        try:
            while process.poll() is None and time.monotonic() < deadline_s:
                work()
        finally:
            process.kill()
        said = process.stdout.read() if process.stdout is not None else ""
    found = re.match(r"\s*(\d+)\s*,\s*(\S+)", said)
    if found is None:
        return Clocks()
    return Clocks(float(found[1]), float(found[2]) if found[2].isdecimal() else None)


def _mhz(file: Path) -> float | None:
    """From a file that holds hertz."""
    try:
        return int(file.read_text(encoding="ascii")) / 1e6
    except (OSError, ValueError):
        return None


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
