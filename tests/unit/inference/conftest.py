"""The inference process, and cameras of it, for the tests beside this file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edge.inference.client import RemoteNetwork
from edge.settings import DetectSettings
from edge.types import UInt8
from tests.harness.inference_server import InferenceServer

Connect = Callable[..., RemoteNetwork]


@pytest.fixture
def settings(default_model: Path) -> DetectSettings:
    return DetectSettings(model=str(default_model), backend="onnxruntime")


@pytest.fixture
def server(tmp_path: Path, settings: DetectSettings) -> Iterator[InferenceServer]:
    with InferenceServer(tmp_path, (settings,)) as running:
        yield running


@pytest.fixture
def remote(settings: DetectSettings) -> Iterator[Connect]:
    """Makes a camera's network; closed after the test. Connected unless `wait_s` is 0."""
    made: list[RemoteNetwork] = []

    def make(
        server: InferenceServer, name: str = "door", deadline_s: float = 5.0, wait_s: float = 20.0
    ) -> RemoteNetwork:
        made.append(RemoteNetwork(server.path, settings, name, deadline_s))
        if wait_s:
            assert made[-1].connect(wait_s)
        return made[-1]

    yield make
    for network in made:
        network.close()


def noise(height_px: int = 192, width_px: int = 320, seed: int = 0) -> UInt8:
    """A picture with something in it."""
    return np.random.default_rng(seed).integers(0, 256, (1, height_px, width_px, 3), np.uint8)
