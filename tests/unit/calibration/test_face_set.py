"""Which pictures are taken, and what is said about the others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from calibration.face_set import MIN_FACES, FaceSet, read_face_set
from calibration.likeness import MAX_DISTANCE_BITS, fingerprint, groups, luma
from edge.detect.detector import Detector
from edge.errors import ConfigError, InputError
from edge.inference.local_network import open_detector
from edge.settings import DetectSettings
from edge.types import Picture, Plane, UInt8
from tests.unit.calibration.conftest import WritePictures, scenery
from tests.unit.models.published import model_file


@pytest.fixture(scope="module")
def detector(shared_data: Path) -> Iterator[Detector]:
    opened = open_detector(DetectSettings(model=str(model_file(shared_data, "yunet_n")), scales=(320,)))
    yield opened
    opened.close()


def photos(shared_data: Path, count: int) -> list[Path]:
    """Scenes with faces, of different people."""
    return sorted((shared_data / "photos" / "calibration").iterdir())[40 : 40 + count]


def test_a_folder_with_subfolders(write_pictures: WritePictures, tmp_path: Path) -> None:
    paths = write_pictures(10, "set/night") + write_pictures(10, "set/day", first=10)
    write_pictures(3, "set/.thumbnails", first=30)
    (tmp_path / "set" / "notes.txt").write_text("nothing")
    found = read_face_set(tmp_path / "set")
    assert set(found.files) == set(paths)
    assert (found.kind, found.faces, len(found)) == ("folder", None, 20)
    assert (found.pictures[0].width_px, found.pictures[0].height_px) == (96, 64)
    assert found.problems == ("20 different scenes are few, 100 to 500 are better",)


def test_a_list_is_relative_to_itself(write_pictures: WritePictures, tmp_path: Path) -> None:
    paths = write_pictures(20)
    lines = ["# yard", "", *(f"set/{path.name}" for path in paths[:19]), str(paths[19]), "set/gone.png"]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    found = read_face_set(tmp_path / "list.txt")
    assert (found.files, found.kind) == (tuple(paths), "list")
    assert "1 pictures cannot be read" in found.problems[0]
    assert "gone.png: No such file" in found.problems[0]


def test_names_and_order_do_not_change_the_hash(write_pictures: WritePictures, tmp_path: Path) -> None:
    paths = write_pictures(20)
    other = tmp_path / "other"
    other.mkdir()
    for number, path in enumerate(reversed(paths)):
        shutil.copy(path, other / f"{number}.png")
    first, second = read_face_set(tmp_path / "set"), read_face_set(other)
    assert first.sha256 == second.sha256
    (other / "0.png").unlink()
    assert read_face_set(other).sha256 != first.sha256


def test_what_is_left_out_is_counted(write_pictures: WritePictures, tmp_path: Path) -> None:
    paths = write_pictures(20)
    folder = tmp_path / "set"
    shutil.copy(paths[0], folder / "z_copy.png")
    (folder / "z_text.jpg").write_text("not a picture")
    (folder / "z_short.png").write_bytes(paths[1].read_bytes()[:-40])
    cv2.imwrite(str(folder / "z_grey.png"), np.full((64, 96, 3), 90, np.uint8))
    cv2.imwrite(str(folder / "z_brighter.png"), np.minimum(scenery(2), 235) + 20)
    found = read_face_set(folder)
    assert len(found) == 21
    said = "\n".join(found.problems)
    assert "2 pictures cannot be read" in said
    assert "z_short.png is cut short" in said
    assert "1 pictures show nothing: z_grey.png" in said
    assert "1 pictures are copies" in said
    assert "1 pictures are near-duplicates" in said


def test_a_limit_takes_evenly_spread_pictures(write_pictures: WritePictures, tmp_path: Path) -> None:
    paths = write_pictures(60)
    found = read_face_set(tmp_path / "set", limit=20)
    assert list(found.files) == paths[::3]
    assert "60 pictures were found and 20 of them taken" in found.problems[0]


def nothing(place: Path) -> None:
    place.mkdir()


def no_pictures(place: Path) -> None:
    place.mkdir()
    (place / "video.mp4").write_bytes(b"")


def all_broken(place: Path) -> None:
    place.mkdir()
    for number in range(20):
        (place / f"{number}.jpg").write_bytes(b"\xff\xd8\xff")


def a_binary(place: Path) -> None:
    place.write_bytes(bytes(range(256)))


def an_empty_list(place: Path) -> None:
    place.write_text("# none yet\n")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda place: None, "No such file"),
        (nothing, "holds no pictures, no files"),
        (no_pictures, r"holds no pictures, 1 other files \(\.mp4\)"),
        (all_broken, "none of 20 pictures can be read"),
        (a_binary, "neither a folder nor a text file"),
        (an_empty_list, "names no pictures"),
    ],
)
def test_a_source_without_pictures(tmp_path: Path, make: object, says: str) -> None:
    place = tmp_path / "place"
    make(place)  # type: ignore[operator]
    with pytest.raises(InputError, match=says) as caught:
        read_face_set(place)
    assert str(place) in caught.value.message
    assert "give a folder" in caught.value.remedy


def test_a_single_picture_is_no_set(write_pictures: WritePictures) -> None:
    with pytest.raises(InputError, match="a single picture"):
        read_face_set(write_pictures(1)[0])


def test_folders_that_cannot_be_opened(write_pictures: WritePictures, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may open everything")
    write_pictures(20)
    closed = tmp_path / "set" / "closed"
    closed.mkdir(mode=0)
    try:
        found = read_face_set(tmp_path / "set")
        assert any("1 folders cannot be opened" in each for each in found.problems)
        with pytest.raises(InputError, match="Permission denied"):
            read_face_set(closed)
    finally:
        closed.chmod(0o700)


def test_three_pictures_are_too_few(write_pictures: WritePictures, tmp_path: Path) -> None:
    write_pictures(3)
    with pytest.raises(ConfigError, match="3 usable pictures of 3 different scenes, at least 16") as caught:
        read_face_set(tmp_path / "set")
    assert "13 or more other scenes" in caught.value.remedy


def test_one_grey_picture_repeated(tmp_path: Path) -> None:
    for number in range(40):
        cv2.imwrite(str(tmp_path / f"{number}.png"), np.full((48, 64, 3), 118, np.uint8))
    with pytest.raises(ConfigError, match="0 usable pictures of 0 different scenes") as caught:
        read_face_set(tmp_path)
    assert "1 pictures show nothing: 0.png; 39 pictures are copies" in caught.value.message


def test_one_scene_repeated_with_small_changes(tmp_path: Path) -> None:
    for number in range(40):
        cv2.imwrite(str(tmp_path / f"{number}.jpg"), scenery(1), [cv2.IMWRITE_JPEG_QUALITY, 50 + number])
    with pytest.raises(ConfigError, match="usable pictures of 1 different scenes, at least 16"):
        read_face_set(tmp_path)


def test_no_faces(detector: Detector, write_pictures: WritePictures, tmp_path: Path) -> None:
    write_pictures(20)
    with pytest.raises(ConfigError, match=f"with 0 faces in 0 of them, at least {MIN_FACES} faces") as caught:
        read_face_set(tmp_path / "set", detector)
    assert "add pictures with people" in caught.value.remedy


def test_faces_are_counted(
    detector: Detector, shared_data: Path, write_pictures: WritePictures, tmp_path: Path
) -> None:
    for path in photos(shared_data, 24):
        (tmp_path / path.name).symlink_to(path)
    seen: list[tuple[int, int]] = []
    found = read_face_set(tmp_path, detector, progress=lambda done, total: seen.append((done, total)))
    assert found.faces is not None
    assert found.faces >= 24
    assert seen[-1] == (24, 24)
    write_pictures(40, ".")
    mixed = read_face_set(tmp_path, detector)
    with_faces = sum(bool(each.faces) for each in found.pictures)
    assert 20 <= with_faces <= 24
    assert f"only {with_faces} of 64 pictures show a face that the float model finds" in mixed.problems


def as_picture(bgr: UInt8) -> Picture:
    return Picture(bgr.shape[1], bgr.shape[0], "bgr", (Plane(bgr),))


def distance(first: UInt8, second: UInt8) -> int:
    bits = [np.unpackbits(np.frombuffer(fingerprint(luma(as_picture(each))), np.uint8)) for each in (first, second)]
    return int((bits[0] != bits[1]).sum())


def test_likeness_of_photos(shared_data: Path) -> None:
    pictures = [np.asarray(cv2.imread(str(path)), np.uint8) for path in photos(shared_data, 12)]
    for picture in pictures:
        half = cv2.resize(picture, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
        encoded = cv2.imdecode(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 40])[1], cv2.IMREAD_COLOR)
        dark = (picture * 0.6).astype(np.uint8)
        for other in (half, encoded, dark):
            assert distance(picture, np.asarray(other, np.uint8)) <= MAX_DISTANCE_BITS
    pairs = [distance(a, b) for i, a in enumerate(pictures) for b in pictures[:i]]
    assert min(pairs) > MAX_DISTANCE_BITS


def test_grey_deep_and_transparent_pictures_have_fingerprints() -> None:
    grey = cv2.cvtColor(scenery(1), cv2.COLOR_BGR2GRAY)
    expected = fingerprint(luma(as_picture(scenery(1))))
    for layout, samples in (("gray", grey), ("bgra", cv2.cvtColor(scenery(1), cv2.COLOR_BGR2BGRA)),
                            ("bgr", scenery(1).astype(np.uint16) * 257)):   # fmt: skip
        found = fingerprint(luma(Picture(96, 64, layout, (Plane(samples),))))  # type: ignore[arg-type]
        assert groups([found, expected]) == [0, 0]


def test_chains_are_one_group() -> None:
    """a is like b, b like c; whether a is like c does not matter."""
    start = np.zeros(256, np.uint8)
    prints = []
    for flipped in (0, 20, 40, 120):
        bits = start.copy()
        bits[:flipped] = 1
        prints.append(np.packbits(bits).tobytes())
    assert groups(prints) == [0, 0, 0, 3]
    assert groups(prints[::-1]) == [0, 1, 1, 1]
    assert groups([]) == []


def test_a_set_is_a_value() -> None:
    assert FaceSet((), "folder").sha256 == FaceSet((), "list").sha256
