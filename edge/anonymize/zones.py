"""Zones as users write them: ``always:0,0;0.3,0;0.3,0.2`` or ``never:10%,10%;20%,10%;20%,30%``."""

from __future__ import annotations

import math

from edge.errors import UsageError
from edge.settings import Zone

MAX_CORNERS = 1000

_REMEDY = (
    'write "always:x,y;x,y;x,y" or "never:...", at least three corners, each from 0 to 1 (or 0% to 100%) of the picture'
)


def parse_zone(text: str) -> Zone:
    """A zone from its text. Raises UsageError for an unknown kind, a bad number, fewer than three corners, no area."""
    kind, separator, rest = text.strip().partition(":")
    kind = kind.strip().lower()
    if not separator or kind not in ("always", "never"):
        raise UsageError(f'zone "{text}" is neither always: nor never:', _REMEDY)
    parts = [part for part in rest.split(";") if part.strip()]
    if not 3 <= len(parts) <= MAX_CORNERS:
        raise UsageError(f'zone "{text[:100]}" has {len(parts)} corners', _REMEDY)
    corners = tuple(_corner(part, text) for part in parts)
    if _hull_is_flat(corners):
        raise UsageError(f'zone "{text}" has no area: its corners lie on one line', _REMEDY)
    return Zone("always" if kind == "always" else "never", corners)


def _corner(part: str, text: str) -> tuple[float, float]:
    numbers = [_fraction(number) for number in part.split(",")]
    if len(numbers) != 2:
        raise UsageError(f'zone "{text}": "{part.strip()}" is not a corner', _REMEDY)
    x, y = numbers
    if not (0.0 <= x <= 1.0 and 0.0 <= y <= 1.0):   # also false for NaN
        raise UsageError(f'zone "{text}": corner "{part.strip()}" is not inside the picture', _REMEDY)
    return x, y


def _fraction(text: str) -> float:
    """A number, or a percentage, as a fraction; NaN for anything else."""
    text = text.strip()
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return math.nan


def _hull_is_flat(corners: tuple[tuple[float, float], ...]) -> bool:
    """Whether all corners lie on one line."""
    x0, y0 = corners[0]
    x1, y1 = max(corners, key=lambda corner: math.hypot(corner[0] - x0, corner[1] - y0))
    return all(abs((x1 - x0) * (y - y0) - (x - x0) * (y1 - y0)) < 1e-9 for x, y in corners)
