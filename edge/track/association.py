"""Which detection continues which track: gates, costs and greedy assignment, vectorised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

OVERLAP_REACH_SIZES = 3.0
"""Boxes that overlap enough to belong together have centres closer than this, unless they are extremely oblong."""


def to_centres(corners: npt.NDArray[np.floating]) -> Float64:
    """Boxes (N, 4) x1 y1 x2 y2 as centre x, centre y, width, height, float64."""
    boxes = np.asarray(corners, np.float64)
    out = np.empty_like(boxes)
    out[:, :2] = (boxes[:, :2] + boxes[:, 2:]) / 2
    out[:, 2:] = boxes[:, 2:] - boxes[:, :2]
    return out


def overlaps(a: Float64, b: Float64) -> Float64:
    """Intersection over union of boxes (..., 4), centre x, centre y, width, height, that broadcast: (...), 0 to 1."""
    half_a, half_b = a[..., 2:] / 2, b[..., 2:] / 2
    low = np.maximum(a[..., :2] - half_a, b[..., :2] - half_b)
    high = np.minimum(a[..., :2] + half_a, b[..., :2] + half_b)
    sides = np.maximum(high - low, 0.0)
    shared = sides[..., 0] * sides[..., 1]
    return np.asarray(shared / (a[..., 2] * a[..., 3] + b[..., 2] * b[..., 3] - shared), np.float64)


def match(predicted: Float64, detected: Float64, gates_sizes: Float64, overlap_gates: Float64,
          size_ratio_limit: float) -> list[tuple[int, int]]:
    """Assign detections to predictions one to one, the best pair first.

    predicted (N, 4) and detected (M, 4): centre x, centre y, width, height, pixels. A pair is possible within the gate
    (N, M), a distance of centres in sizes, and the ratio of sizes, or from an overlap (N, M) on (both broadcast).
    Greedy assignment is what SORT (Bewley et al., ICIP 2016) and ByteTrack (Zhang et al., ECCV 2022) come to when
    gates are tight, without a solver. Returns (prediction, detection) index pairs.
    """
    if not len(predicted) or not len(detected):
        return []
    shape = len(predicted), len(detected)
    gates_sizes, overlap_gates = np.broadcast_to(gates_sizes, shape), np.broadcast_to(overlap_gates, shape)
    offset_x = predicted[:, None, 0] - detected[None, :, 0]
    offset_y = predicted[:, None, 1] - detected[None, :, 1]
    area_p, area_d = predicted[:, 2] * predicted[:, 3], detected[:, 2] * detected[:, 3]
    size_squared = np.sqrt(area_p[:, None] * area_d[None, :])
    distance_squared = (offset_x * offset_x + offset_y * offset_y) / size_squared
    # Few pairs are near each other; the rest of the work is for those.
    rows, columns = np.nonzero(distance_squared <= max(OVERLAP_REACH_SIZES, float(np.max(gates_sizes))) ** 2)
    distance = np.sqrt(distance_squared[rows, columns])
    iou = overlaps(predicted[rows], detected[columns])
    log_ratio = 0.5 * np.abs(np.log(area_p[rows] / area_d[columns]))
    near = (distance <= gates_sizes[rows, columns]) & (log_ratio <= np.log(size_ratio_limit))
    possible = near | (iou >= overlap_gates[rows, columns])
    rows, columns = rows[possible], columns[possible]
    cost = (distance + 0.5 * log_ratio - iou)[possible]
    pairs: list[tuple[int, int]] = []
    used_rows: set[int] = set()
    used_columns: set[int] = set()
    order = np.argsort(cost, kind="stable")
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if row not in used_rows and column not in used_columns:
            used_rows.add(row)
            used_columns.add(column)
            pairs.append((row, column))
    return pairs
