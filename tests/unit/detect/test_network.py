"""A detector over a network that may be elsewhere, and may come back as another."""

from __future__ import annotations

import numpy as np
import pytest

from edge.detect.candidates import Candidates
from edge.detect.detector import Detector
from edge.errors import DetectorError
from edge.models.description import ModelDescription, description
from edge.settings import DetectSettings
from edge.types import UInt8
from tests.unit.detect.photos import as_picture

GREY = as_picture(np.full((384, 640, 3), 90, np.uint8))


class Elsewhere:
    """Finds one face; may change its model when it is asked."""

    reason = ""

    def __init__(self, name: str, later: str = "") -> None:
        self.model: ModelDescription = description(name)
        self.later = later
        self.sizes: list[tuple[int, ...]] = []

    def find(self, pixels: UInt8, min_score: float) -> Candidates:
        self.sizes.append(pixels.shape)
        if self.later:
            self.model, self.later = description(self.later), ""
        points = np.arange(10, dtype=np.float32).reshape(1, 5, 2)
        return Candidates(np.array([[10, 10, 50, 60]], np.float32), np.ones(1, np.float32), points)

    def describe(self) -> str:
        return "nothing"

    def close(self) -> None:
        pass


@pytest.mark.parametrize("name", ["yunet_n", "centerface"])
def test_inputs_and_landmarks_are_those_of_its_model(name: str) -> None:
    network = Elsewhere(name)
    detector = Detector(DetectSettings(), network)
    found = detector.detect(GREY, (640,), 0.5)
    assert found.boxes.tolist() == [[10, 10, 50, 60]]
    assert found.landmarks is not None
    order = [network.model.landmarks.index(point) for point in ("right_eye", "left_eye")]
    np.testing.assert_allclose(found.landmarks[0, :2, 0], [2 * place for place in order])
    assert network.sizes[0][1] % network.model.input.stride_multiple == 0
    assert detector.score_threshold == network.model.score_threshold
    assert detector.describe() == f"{network.model.title} on nothing"


def test_a_model_that_changes_meanwhile_is_an_error() -> None:
    detector = Detector(DetectSettings(), Elsewhere("yunet_n", later="centerface"))
    with pytest.raises(DetectorError, match="changed"):
        detector.detect(GREY, (640,), 0.5)
    assert len(detector.detect(GREY, (640,), 0.5)) == 1
