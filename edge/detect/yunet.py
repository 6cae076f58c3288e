"""Reading YuNet: https://github.com/ShiqiYu/libfacedetection.train, decoding as in cv2.FaceDetectorYN."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edge.detect.candidates import Candidates, feature_map, joined, logit, sigmoid
from edge.models.description import ModelDescription
from edge.types import Float32


def read_yunet(
    maps: Mapping[str, Float32], model: ModelDescription, height_px: int, width_px: int, min_score: float
) -> Candidates:
    """Channels: class logit, objectness logit, box (dx, dy, log w, log h), five landmarks (dx, dy); units of the
    stride.

    The score is the geometric mean of class and objectness, so both must be at least min_score squared.
    """
    parts = []
    for stride in model.strides:
        rows, columns = height_px // stride, width_px // stride
        values = feature_map(maps, model, stride, rows, columns)
        cells = np.flatnonzero(np.minimum(values[0], values[1]) >= logit(min_score * min_score))
        if not len(cells):
            continue
        found = values[:, cells]
        scores = np.sqrt(sigmoid(found[0]) * sigmoid(found[1]))
        keep = scores >= min_score
        cells, found, scores = cells[keep], found[:, keep], scores[keep]
        corner = np.stack((cells % columns, cells // columns)).astype(np.float32)          # (2, N)
        centre = (found[2:4] + corner) * stride
        half = np.exp(np.minimum(found[4:6], 20.0)) * (0.5 * stride)
        boxes = np.concatenate((centre - half, centre + half)).T
        points = (found[6:16].reshape(5, 2, -1) + corner) * stride
        parts.append(Candidates(boxes, scores, points.transpose(2, 0, 1)))
    return joined(parts, landmarks=True)
