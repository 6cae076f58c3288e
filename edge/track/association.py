"""Which detection continues which track: gates, costs and greedy assignment, vectorised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]


def to_centres(corners: npt.NDArray[np.floating]) -> Float64:
    """Boxes (N, 4) x1 y1 x2 y2 as centre x, centre y, width, height, float64."""
    boxes = np.asarray(corners, np.float64)
    out = np.empty_like(boxes)
    out[:, :2] = (boxes[:, :2] + boxes[:, 2:]) / 2
    out[:, 2:] = boxes[:, 2:] - boxes[:, :2]
    return out


def overlaps(a: Float64, b: Float64) -> Float64:
    """Intersection over union of boxes (N, 4) and (M, 4), centre x, centre y, width, height: (N, M), 0 to 1."""
    half_a, half_b = a[:, None, 2:] / 2, b[None, :, 2:] / 2
    low = np.maximum(a[:, None, :2] - half_a, b[None, :, :2] - half_b)
    high = np.minimum(a[:, None, :2] + half_a, b[None, :, :2] + half_b)
    sides = np.maximum(high - low, 0.0)
    shared = sides[..., 0] * sides[..., 1]
    area_a, area_b = a[:, 2] * a[:, 3], b[:, 2] * b[:, 3]
    return np.asarray(shared / (area_a[:, None] + area_b[None, :] - shared), np.float64)


def match(predicted: Float64, detected: Float64, gates_sizes: Float64, overlap_gates: Float64,
          size_ratio_limit: float) -> list[tuple[int, int]]:
    """Assign detections to predictions one to one, the best pair first.

    predicted (N, 4) and detected (M, 4): centre x, centre y, width, height, pixels. A pair is possible within the gate
    (N, M), a distance of centres in sizes, and the ratio of sizes, or from an overlap (N, M) on, 0 to 1.
    Greedy assignment is what SORT (Bewley et al., ICIP 2016) and ByteTrack (Zhang et al., ECCV 2022) come to when
    gates are tight, without a solver. Returns (prediction, detection) index pairs.
    """
    if not len(predicted) or not len(detected):
        return []
    iou = overlaps(predicted, detected)
    log_size_p = 0.5 * np.log(predicted[:, 2] * predicted[:, 3])
    log_size_d = 0.5 * np.log(detected[:, 2] * detected[:, 3])
    log_ratio = np.abs(log_size_p[:, None] - log_size_d[None, :])
    size = np.exp(0.5 * (log_size_p[:, None] + log_size_d[None, :]))
    offset = predicted[:, None, :2] - detected[None, :, :2]
    distance = np.hypot(offset[..., 0], offset[..., 1]) / size
    near = (distance <= gates_sizes) & (log_ratio <= np.log(size_ratio_limit))
    rows, columns = np.nonzero(near | (iou >= overlap_gates))
    cost = distance[rows, columns] + 0.5 * log_ratio[rows, columns] - iou[rows, columns]
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
