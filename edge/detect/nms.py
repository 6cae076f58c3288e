"""Non-maximum suppression: of boxes that overlap, the one with the best score stays."""

from __future__ import annotations

import numpy as np

from edge.types import Float32

IntArray = np.typing.NDArray[np.intp]


def suppress(boxes: Float32, scores: Float32, max_iou: float, limit: int) -> IntArray:
    """Indices of the boxes that stay, best first.

    boxes: float32 (N, 4), x1 y1 x2 y2. scores: float32 (N,). Boxes that overlap a better one by more than `max_iou`
    go. limit: at most this many of the best are looked at, so that noise cannot stall a frame.
    """
    order = np.argsort(-scores, kind="stable")[:limit]
    kept: list[int] = []
    x1, y1, x2, y2 = boxes[order].T
    areas = (x2 - x1) * (y2 - y1)
    alive = np.arange(len(order))
    while len(alive):
        best, rest = alive[0], alive[1:]
        kept.append(best)
        width = np.minimum(x2[best], x2[rest]) - np.maximum(x1[best], x1[rest])
        height = np.minimum(y2[best], y2[rest]) - np.maximum(y1[best], y1[rest])
        shared = np.maximum(width, 0) * np.maximum(height, 0)
        alive = rest[shared <= max_iou * (areas[best] + areas[rest] - shared)]
    return order[kept]
