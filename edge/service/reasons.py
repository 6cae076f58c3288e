"""Reasons are free text; a label of a metric has to take one of few values, or the time series have no end."""

from __future__ import annotations

from collections.abc import Mapping

OTHER = "other"
# The first of these that occurs in a reason is its label.
_WORDS = ("damaged", "look-ahead", "masking", "disk", "overload", "behind", "inference", "detector", "late")
LABELS = (*_WORDS, OTHER)


def label(reason: str) -> str:
    """One of `LABELS`."""
    lower = reason[:200].lower()
    return next((word for word in _WORDS if word in lower), OTHER)


def bounded(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by label instead of by reason; all labels, as an increase from nothing is none to Prometheus."""
    found = dict.fromkeys(LABELS, 0)
    for reason, count in counts.items():
        found[label(reason)] += count
    return found
