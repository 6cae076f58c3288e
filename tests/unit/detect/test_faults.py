"""Outputs that cannot be faces: an error, never a silent miss."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from edge.detect.detector import Detector
from edge.errors import DetectorError
from edge.inference.local_network import LocalNetwork
from edge.types import Float32
from tests.unit.detect.conftest import OpenDetector
from tests.unit.detect.photos import Array, as_picture
from tests.unit.models.published import NAMES


class Broken:
    """Takes the place of a detector's runtime and gives something else; `change` gets the real maps."""

    def __init__(self, detector: Detector, change: Callable[[dict[str, Float32]], object]) -> None:
        network = detector._network
        assert isinstance(network, LocalNetwork)
        self.real, self.change = network.runtime, change
        network.runtime = self  # type: ignore[assignment]

    def run(self, picture: Array) -> object:
        return self.change(self.real.run(picture))

    def close(self) -> None:
        self.real.close()


def with_value(maps: dict[str, Float32], value: float, channel: int) -> dict[str, Float32]:
    changed = {name: found.copy() for name, found in maps.items()}
    for found in changed.values():
        found[0, channel, -1, -1] = value
    return changed


CHANGES: dict[str, Callable[[dict[str, Float32]], object]] = {
    "none": lambda maps: None,
    "a list": lambda maps: list(maps.values()),
    "no maps": lambda maps: {},
    "one missing": lambda maps: dict(list(maps.items())[1:]),
    "NaN score": lambda maps: with_value(maps, np.nan, 0),
    "NaN box": lambda maps: with_value(maps, np.nan, 3),
    "infinite landmark": lambda maps: with_value(maps, np.inf, 8),
    "minus infinite score": lambda maps: with_value(maps, -np.inf, 0),
    "double": lambda maps: {name: value.astype(np.float64) for name, value in maps.items()},
    "a row less": lambda maps: {name: value[:, :, 1:] for name, value in maps.items()},
    "a channel less": lambda maps: {name: value[:, 1:] for name, value in maps.items()},
    "a batch of two": lambda maps: {name: np.concatenate([value, value]) for name, value in maps.items()},
    "nothing in it": dict.fromkeys,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_outputs_that_cannot_be_faces_are_errors(
    open_detector: OpenDetector, group: Array, name: str, change: Callable[[dict[str, Float32]], object]
) -> None:
    detector = open_detector(name)
    Broken(detector, change)
    with pytest.raises(DetectorError):
        detector.detect(as_picture(group), (320,), 0.5)


@pytest.mark.parametrize("name", NAMES)
def test_huge_boxes_are_cut_to_size(open_detector: OpenDetector, group: Array, name: str) -> None:
    """Finite but absurd numbers: a box of 1e30 pixels would break masks later."""
    detector = open_detector(name)
    Broken(detector, lambda maps: {key: value * 0 + 80 for key, value in maps.items()})
    result = detector.detect(as_picture(group), (320,), 0.3)
    height, width = group.shape[:2]
    assert np.abs(result.boxes).max(initial=0) <= 1.5 * max(width, height)
    assert np.isfinite(result.boxes).all()
