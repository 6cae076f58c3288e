"""Detectors and a photo for the tests beside this file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge.detect.detector import Detector
from edge.inference import local_network
from edge.settings import DetectSettings
from tests.unit.detect.photos import Array, labelled
from tests.unit.models.published import model_file

OpenDetector = Callable[..., Detector]


@pytest.fixture
def open_detector(shared_data: Path) -> Iterator[OpenDetector]:
    """A detector by the name of its description; closed after the test."""
    opened: list[Detector] = []

    def open_one(name: str = "yunet_n", **settings: object) -> Detector:
        wanted = DetectSettings(model=str(model_file(shared_data, name)), **settings)  # type: ignore[arg-type]
        opened.append(local_network.open_detector(wanted))
        return opened[-1]

    yield open_one
    for detector in opened:
        detector.close()


@pytest.fixture(scope="module")
def group(shared_data: Path) -> Array:
    """A photo with seven faces, 500x375."""
    return next(labelled(shared_data, "human", 1)).bgr
