"""The clock, and the board: power mode, throttling, temperature, memory."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

from edge.cameras import ServiceSettings
from edge.doctor.finding import Finding

HOT_C = 90.0
_LEAST_AVAILABLE_BYTES = 1 << 30
_STA_UNSYNC, _TIME_ERROR = 0x0040, 5  # linux/timex.h
_RELEASED_S = 1_704_067_200  # 2024-01-01: no clock that is right is before


def check_clock(settings: ServiceSettings) -> list[Finding]:
    """Names of segments and retention by age follow the clock."""
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    if time.time() < _RELEASED_S:
        return [
            Finding(
                "error", f"it is {now}", "connect to a time server: timedatectl set-ntp true; check the RTC battery"
            )
        ]
    synchronised = is_synchronised()
    if synchronised is None:
        return [Finding("info", f"it is {now}; whether it is synchronised cannot be seen from here")]
    if not synchronised:
        return [Finding("warning", f"it is {now}, not synchronised", "timedatectl set-ntp true; open UDP port 123")]
    return [Finding("ok", f"it is {now}, synchronised")]


def is_synchronised(stamp: Path = Path("/run/systemd/timesync/synchronized")) -> bool | None:
    """What the kernel says; in the service's sandbox, which may not ask it, what systemd-timesyncd left; None: unknown.

    The kernel's structure is read only (modes 0): adjtimex(2).
    """
    timex = (ctypes.c_long * 64)()  # struct timex is 208 bytes
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    if state >= 0:
        status = ctypes.cast(timex, ctypes.POINTER(ctypes.c_int))[10]  # after modes, offset, freq and two errors
        return state != _TIME_ERROR and not status & _STA_UNSYNC
    return True if stamp.exists() else None


def check_board(
    settings: ServiceSettings, roots: tuple[Path, Path, Path] = (Path("/sys"), Path("/proc"), Path("/"))
) -> list[Finding]:
    """roots: of sysfs, procfs and the system."""
    from edge.service.board import read_board

    report = read_board(*roots)
    facts = [f"power mode {report.power_mode}"] if report.power_mode else []
    findings = []
    if report.temperatures_c:
        zone, hottest = max(report.temperatures_c.items(), key=lambda item: item[1])
        facts.append(f"{zone} {hottest:.0f} °C")
        if hottest >= HOT_C:
            findings.append(Finding("warning", f"{zone} has {hottest:.0f} °C and will throttle", "improve the cooling"))
    throttled = {cause: count for cause, count in report.throttled.items() if count}
    if throttled:
        shown = ", ".join(f"{cause} {count} times" for cause, count in throttled.items())
        findings.append(
            Finding(
                "warning",
                f"throttled since boot: {shown}",
                "use a stronger supply, or a smaller power mode: nvpmodel -q",
            )
        )
    if report.memory_available_bytes is not None:
        facts.append(f"{report.memory_available_bytes / 1e9:.1f} GB memory available")
        if report.memory_available_bytes < _LEAST_AVAILABLE_BYTES:
            findings.append(Finding("warning", "less than 1 GB of memory is available", "stop other programs"))
    return [*findings, Finding("ok" if facts else "info", ", ".join(facts) or "says nothing about itself")]
