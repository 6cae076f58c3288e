"""What the network sees of a set is what it sees at run time."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from calibration.face_set import read_face_set
from calibration.inputs import inputs
from edge.detect.detector import run_time_scales
from edge.errors import InputError
from edge.inference.local_network import LocalNetwork, open_detector
from edge.models.description import description
from edge.pictures import read_picture
from edge.settings import DetectSettings
from edge.types import UInt8
from tests.unit.calibration.conftest import WritePictures
from tests.unit.models.published import model_file


def test_the_very_bytes_that_a_detector_runs_on(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in sorted((shared_data / "photos" / "calibration").iterdir())[40:58]:
        (tmp_path / path.name).symlink_to(path)
    face_set = read_face_set(tmp_path)
    seen: list[UInt8] = []
    detector = open_detector(DetectSettings(model=str(model_file(shared_data, "yunet_n"))))
    assert isinstance(detector._network, LocalNetwork)
    runtime = detector._network.runtime
    runs = runtime.run
    monkeypatch.setattr(runtime, "run", lambda pixels: (seen.append(pixels.copy()), runs(pixels))[1])
    for path in face_set.files:
        picture = read_picture(path).picture
        detector.detect(picture, detector.scales_for(picture.width_px, picture.height_px), 0.5)
    detector.close()
    given = inputs(face_set, description("yunet_n"))
    assert len(given) == len(seen) > len(face_set)
    for found, expected in zip(given, seen, strict=True):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("size", [(200, 100), (260, 10), (999, 1), (1000, 1000), (1080, 1920), (2499, 9), (3840, 2160)])
def test_scales_are_those_of_a_run(shared_data: Path, size: tuple[int, int]) -> None:
    detector = open_detector(DetectSettings(model=str(model_file(shared_data, "yunet_n"))))
    assert run_time_scales(*size) == detector.scales_for(*size)
    detector.close()


def test_inputs_can_be_kept_and_made_again(write_pictures: WritePictures, tmp_path: Path) -> None:
    write_pictures(16, size=(320, 240))
    given = inputs(read_face_set(tmp_path / "set"), description("centerface"), scales=(320, 640))
    first, second = list(given), list(given)
    assert [each.shape for each in first[:2]] == [(1, 256, 320, 3), (1, 480, 640, 3)]
    assert len(first) == len(given) == 32
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert len({each.tobytes() for each in first}) == 32


def test_pictures_are_upright(write_pictures: WritePictures, tmp_path: Path) -> None:
    paths = write_pictures(16, size=(64, 320))
    face_set = read_face_set(tmp_path / "set")
    assert next(iter(inputs(face_set, description("yunet_n")))).shape[1] == 320
    cv2.imwrite(str(paths[3]), np.zeros((9, 9), np.uint8))
    paths[4].unlink()
    with pytest.raises(InputError, match=r"0004\.png"):
        list(inputs(face_set, description("yunet_n")))
