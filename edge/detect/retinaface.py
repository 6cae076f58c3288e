"""Reading RetinaFace: https://github.com/biubug6/Pytorch_Retinaface (MIT), priors and decoding as there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edge.detect.candidates import Candidates, feature_map, joined, logit, sigmoid
from edge.models.description import ModelDescription
from edge.types import Float32

# Sides of the two square priors of a cell, in units of the stride: 16 and 32 px at stride 8, 64 and 128 at 16, 256 and
# 512 at 32 (cfg_mnet in data/config.py there); centre variance 0.1, size variance 0.2.
_PRIOR_SIDES_PX = {8: (16.0, 32.0), 16: (64.0, 128.0), 32: (256.0, 512.0)}
_CENTRE_VARIANCE, _SIZE_VARIANCE = 0.1, 0.2


def read_retinaface(
    maps: Mapping[str, Float32], model: ModelDescription, height_px: int, width_px: int, min_score: float
) -> Candidates:
    """Channels: per anchor two class logits (background, face), then per anchor a box, then per anchor landmarks.

    Boxes (dx, dy, log w, log h) and landmarks (dx, dy) are relative to the prior. A softmax over two classes is the
    logistic function of their difference.
    """
    parts = []
    for stride in model.strides:
        rows, columns = height_px // stride, width_px // stride
        values = feature_map(maps, model, stride, rows, columns)
        margins = values[1:4:2] - values[0:4:2]                                            # (2, cells)
        kinds, cells = np.nonzero(margins >= logit(min_score))
        if not len(cells):
            continue
        side = np.asarray(_PRIOR_SIDES_PX[stride], np.float32)[kinds]
        centre = (np.stack((cells % columns, cells // columns)) + np.float32(0.5)) * np.float32(stride)
        box = values[4 + 4 * kinds + np.arange(4)[:, None], cells]
        middle = centre + box[:2] * (_CENTRE_VARIANCE * side)
        half = 0.5 * side * np.exp(np.minimum(box[2:] * _SIZE_VARIANCE, 20.0))
        boxes = np.concatenate((middle - half, middle + half)).T
        offsets = values[12 + 10 * kinds + np.arange(10)[:, None], cells].reshape(5, 2, -1)
        points = (centre + offsets * (_CENTRE_VARIANCE * side)).transpose(2, 0, 1)
        parts.append(Candidates(boxes.astype(np.float32), sigmoid(margins[kinds, cells]), points.astype(np.float32)))
    return joined(parts, landmarks=True)
