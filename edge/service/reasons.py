"""Reasons are free text; a label of a metric has to take one of few values, or the time series have no end."""

from __future__ import annotations

from collections.abc import Mapping

OTHER = "other"
# The first word that occurs in a reason gives the label.
_LABELS = {
    "damaged": "damaged", "masking": "masking", "disk": "disk", "storage": "disk", "overload": "overload",
    "late": "late", "in time": "late", "deadline": "late", "inference": "inference", "not connected": "inference",
    "detector": "detector", "runtime": "detector", "tensorrt": "detector", "schedule": "schedule", "doubt": "doubt",
}  # fmt: skip
LABELS = (*dict.fromkeys(_LABELS.values()), OTHER)


def label(reason: str) -> str:
    """One of `LABELS`."""
    lower = reason[:200].lower()
    return next((name for word, name in _LABELS.items() if word in lower), OTHER)


def bounded(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by label instead of by reason; all labels, as an increase from nothing is none to Prometheus."""
    found = dict.fromkeys(LABELS, 0)
    for reason, count in counts.items():
        found[label(reason)] += count
    return found
