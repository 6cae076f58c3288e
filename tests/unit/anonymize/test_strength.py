"""What is left of real faces. How far a recogniser gets with it is measured in `tests.bench.strength` and `fusion`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from edge.anonymize.gate import Anonymizer
from edge.settings import MaskSettings, Method
from tests.harness.frames import face, frame, nv12_from_bgr

Array = npt.NDArray[Any]


def real_faces(data: Path, count: int = 60) -> list[tuple[Array, tuple[float, float, float, float]]]:
    """Photos (uint8, blue first) with one labelled face of at least 60 pixels each."""
    found = []
    for label in json.loads((data / "photos" / "labels_eval_consensus.json").read_text()):
        big = [box for box in label["boxes"] if min(box[2:]) >= 60]
        if big and len(found) < count:
            x, y, width, height = big[0]
            found.append((cv2.imread(str(data / label["file"])), (x, y, x + width, y + height)))
    return found


def detail(luma: Array, box: tuple[float, ...]) -> Array:
    """What is finer than 1/24 of the face, in the ellipse of the face: eyes, mouth, all that tells people apart."""
    x1, y1, x2, y2 = box
    fine = luma.astype(np.float32) - cv2.GaussianBlur(luma.astype(np.float32), (0, 0), (x2 - x1) / 24)
    rows, columns = np.mgrid[: luma.shape[0], : luma.shape[1]]
    inside = ((2 * columns - x1 - x2) / (x2 - x1)) ** 2 + ((2 * rows - y1 - y2) / (y2 - y1)) ** 2 < 1
    return fine[inside]


@pytest.mark.parametrize("method", ["pixelate", "blur", "solid"])
def test_hardly_any_detail_of_real_faces_is_left(method: Method, shared_data: Path) -> None:
    """The share of the detail that comes through, as the slope of a regression of the masked on the real one."""
    anonymizer = Anonymizer(MaskSettings(method=method))
    left = []
    for image, box in real_faces(shared_data):
        picture = nv12_from_bgr(image)
        before = detail(picture.planes[0].samples, box)
        assert anonymizer.apply(frame(picture), [face(*box)]).redaction == "regions"
        after = detail(picture.planes[0].samples, box)
        left.append(float(np.cov(before, after)[0, 1] / before.var()))
    assert len(left) >= 30
    assert np.mean(left) < 0.1 and np.max(left) < 0.3
