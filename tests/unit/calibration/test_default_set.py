"""The built-in set: made of photos that pip fetches, in many scenes, the same each time."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from calibration import default_set
from calibration.default_set import BACKGROUNDS, PEOPLE, SCENES, Photo, default_pictures, scene
from calibration.face_set import read_face_set
from calibration.split import split
from edge.errors import UnavailableError
from edge.inference.local_network import open_detector
from edge.settings import DetectSettings
from edge.types import UInt8

Photos = dict[Photo, UInt8]


@pytest.fixture(scope="module")
def pictures() -> tuple[Path, ...]:
    """In the user's cache, as for a build, so that they are fetched and made once."""
    try:
        return default_pictures()
    except UnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> dict[Photo, bytes]:
    """Noise in the place of the photos, for what happens around them; three scenes are enough."""
    random = np.random.default_rng(0)
    photos = [person.photo for person in PEOPLE] + list(BACKGROUNDS)
    noise = {photo: random.integers(0, 256, (600, 520, 3), np.uint8) for photo in photos}
    encoded = {photo: cv2.imencode(".png", pixels)[1].tobytes() for photo, pixels in noise.items()}
    monkeypatch.setattr(default_set, "_fetch", lambda: encoded)
    monkeypatch.setattr(default_set, "SCENES", 3)
    return encoded


def test_every_scene_shows_a_face(pictures: tuple[Path, ...], default_model: Path) -> None:
    detector = open_detector(DetectSettings(model=str(default_model), scales=(320, 640)))
    found = read_face_set(None, detector)
    detector.close()
    assert (found.kind, len(found), found.files) == ("default", SCENES, pictures)
    assert sum(bool(each.faces) for each in found.pictures) >= 0.9 * SCENES
    assert found.faces is not None
    assert found.faces > 2 * SCENES
    assert "this is the built-in set" in found.problems[0]
    assert not any("near-duplicates" in each for each in found.problems)
    assert [len(part) for part in split(found)] == [SCENES - SCENES // 5, SCENES // 5]


def test_made_again_alike(stand_ins: dict[Photo, bytes], tmp_path: Path) -> None:
    first = default_pictures(tmp_path / "a")
    second = default_pictures(tmp_path / "b")
    assert [path.name for path in first] == ["scene_000.jpg", "scene_001.jpg", "scene_002.jpg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert len({path.read_bytes() for path in first}) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_made_once_and_mended(
    stand_ins: dict[Photo, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = default_pictures(tmp_path / "set")
    content = first[0].read_bytes()

    def no_network() -> dict[Photo, bytes]:
        raise UnavailableError("no network")

    monkeypatch.setattr(default_set, "_fetch", no_network)
    assert default_pictures(tmp_path / "set") == first
    first[0].write_bytes(content[:-1])
    with pytest.raises(UnavailableError):
        default_pictures(tmp_path / "set")
    monkeypatch.setattr(default_set, "_fetch", lambda: stand_ins)
    default_pictures(tmp_path / "set")
    assert first[0].read_bytes() == content


def test_scenes_have_the_sizes_of_cameras(stand_ins: dict[Photo, bytes]) -> None:
    photos = {photo: default_set._decoded(photo, content) for photo, content in stand_ins.items()}
    shapes = {scene(number, photos).shape for number in range(5)}
    assert shapes == {(720, 1280, 3), (1080, 1920, 3), (480, 640, 3), (1280, 720, 3), (540, 960, 3)}


def test_without_a_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(UnavailableError, match="built-in calibration set cannot be made: scikit-image") as caught:
        default_pictures(tmp_path / "set")
    assert "--calibration DIR" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []
