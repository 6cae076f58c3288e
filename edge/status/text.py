"""Numbers and counts as short text."""

from __future__ import annotations

from collections.abc import Mapping

from edge.text import one_line


def duration(seconds: float) -> str:
    """Such as ``45 s``, ``12 min``, ``5 h``, ``3 d``."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: int) -> str:
    """Bytes, such as ``12.5 GiB``."""
    value, units = float(count), ("B", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if abs(value) < 1024 or unit == units[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def number(count: int) -> str:
    """In groups of three: ``1,234,567``."""
    return f"{count:,}"


def by_reason(counts: Mapping[str, int], most: int = 4) -> str:
    """Such as ``12 damaged, 3 late``, the largest first; empty when there are none."""
    found = sorted(((count, reason) for reason, count in counts.items() if count), reverse=True)
    parts = [f"{number(count)} {one_line(reason)}" for count, reason in found[:most]]
    if len(found) > most:
        parts.append(f"{number(sum(count for count, _ in found[most:]))} for other reasons")
    return ", ".join(parts)
