"""Reading SCRFD: https://github.com/deepinsight/insightface/tree/master/detection/scrfd, decoding as in its demo."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edge.detect.candidates import Candidates, feature_map, joined, logit, sigmoid
from edge.models.description import ModelDescription
from edge.types import Float32


def read_scrfd(
    maps: Mapping[str, Float32], model: ModelDescription, height_px: int, width_px: int, min_score: float
) -> Candidates:
    """Channels: per anchor a logit, then per anchor four distances (left, top, right, bottom), then per anchor
    landmarks.

    Distances and landmarks (dx, dy) are from the upper left corner of the cell, in units of the stride.
    """
    parts = []
    anchors, has_points = model.anchors, bool(model.landmarks)
    for stride in model.strides:
        rows, columns = height_px // stride, width_px // stride
        values = feature_map(maps, model, stride, rows, columns)
        kinds, cells = np.nonzero(values[:anchors] >= logit(min_score))
        if not len(cells):
            continue
        corner = np.stack((cells % columns, cells // columns)).astype(np.float32)          # (2, N)
        first = anchors + 4 * kinds
        distances = values[first + np.arange(4)[:, None], cells]                           # (4, N)
        boxes = np.concatenate((corner - distances[:2], corner + distances[2:])).T * stride
        points = None
        if has_points:
            channel = 5 * anchors + 10 * kinds + np.arange(10)[:, None]
            points = (values[channel, cells].reshape(5, 2, -1) + corner).transpose(2, 0, 1) * stride
        parts.append(Candidates(boxes.astype(np.float32), sigmoid(values[kinds, cells]), points))
    return joined(parts, has_points)
