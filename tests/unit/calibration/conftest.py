"""Pictures and graphs for the tests beside this file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge.types import UInt8

WritePictures = Callable[..., list[Path]]


def scenery(number: int, width_px: int = 96, height_px: int = 64) -> UInt8:
    """A soft random pattern, unlike that of any other number; BGR."""
    coarse = np.random.default_rng(number).integers(0, 256, (9, 9, 3), np.uint8)
    return np.asarray(cv2.resize(coarse, (width_px, height_px), interpolation=cv2.INTER_CUBIC), np.uint8)


@pytest.fixture
def write_pictures(tmp_path: Path) -> WritePictures:
    """Writes that many different pictures into a folder; gives their paths."""

    def write(count: int, folder: str = "set", first: int = 0, size: tuple[int, int] = (96, 64)) -> list[Path]:
        place = tmp_path / folder
        place.mkdir(parents=True, exist_ok=True)
        paths = [place / f"{number:04}.png" for number in range(first, first + count)]
        for number, path in enumerate(paths, first):
            cv2.imwrite(str(path), scenery(number, *size))
        return paths

    return write
