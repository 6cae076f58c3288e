"""Names that prepared graphs and their readers share."""

from __future__ import annotations

INPUT = "picture"


def map_name(stride: int) -> str:
    """Name of the output that holds the feature map of a stride."""
    return f"stride_{stride}"
