"""Finding real faces with real models, in every layout, at every shape of picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge.errors import InputError
from edge.inference.local_network import open_detector
from edge.settings import DetectSettings
from edge.types import Float32, Picture
from tests.unit.detect.conftest import OpenDetector
from tests.unit.detect.photos import Array, as_nv12, as_picture, labelled, overlaps
from tests.unit.models.published import NAMES

# Lowest recall at IoU 0.3, and most boxes without a label, on 16 photos each labelled by people and by consensus.
FLOORS = {"yunet_n": (0.95, 20), "centerface": (0.93, 14), "retinaface_mb025": (0.85, 6), "scrfd_500m": (0.93, 10)}


@pytest.mark.parametrize("name", NAMES)
def test_labelled_faces_are_found(shared_data: Path, open_detector: OpenDetector, name: str) -> None:
    detector = open_detector(name)
    faces = found = extra = 0
    for photo in [*labelled(shared_data, "human", 16), *labelled(shared_data, "consensus", 16)]:
        result = detector.detect(as_picture(photo.bgr), (320, 640), detector.score_threshold)
        assert (result.scores >= detector.score_threshold).all()
        assert (np.diff(result.scores) <= 0).all()
        faces += len(photo.faces)
        found += int((overlaps(photo.faces, result.boxes) >= 0.3).any(axis=1).sum()) if len(result) else 0
        known = np.concatenate([photo.faces, photo.ignored])
        extra += int((~(overlaps(result.boxes, known) >= 0.3).any(axis=1)).sum())
    recall, most = FLOORS[name]
    assert found / faces >= recall, f"{found} of {faces}"
    assert extra <= most


@pytest.mark.parametrize("name", NAMES)
def test_landmarks_are_in_the_order_that_is_promised(
    shared_data: Path, open_detector: OpenDetector, name: str
) -> None:
    """Right eye first, which is at the left of the picture: all five near the labelled points."""
    detector = open_detector(name)
    rows = json.loads((shared_data / "photos/labels_eval_landmarks.json").read_text())
    checked = 0
    for row in rows:
        picture = as_picture(cv2.imread(str(shared_data / row["file"])))
        result = detector.detect(picture, (640,), 0.5)
        for label in row["landmarks"] or []:
            points = np.asarray(label, np.float64).reshape(-1, 2)
            if len(points) != 68 or not len(result):
                continue
            # The 68 points of Multi-PIE: 36-41 right eye, 42-47 left eye, 30 tip of the nose, 48 and 54 mouth corners.
            expected = np.stack([points[36:42].mean(0), points[42:48].mean(0), points[30], points[48], points[54]])
            distances = np.linalg.norm(result.landmarks - expected, axis=2).mean(axis=1)
            between_eyes = np.linalg.norm(expected[0] - expected[1])
            if between_eyes < 12:
                continue
            assert distances.min() < 0.35 * between_eyes, row["file"]
            checked += 1
    assert checked >= 5


def same_faces(found: Float32, expected: Float32, least: float) -> None:
    assert len(found) == len(expected)
    assert overlaps(found, expected).max(axis=1).min() >= least


@pytest.mark.parametrize(
    "picture",
    [
        as_nv12,
        lambda bgr: as_nv12(bgr, full_range=True),
        lambda bgr: as_picture(bgr, "bgra"),
        lambda bgr: as_picture(bgr, "bgr", depth=16),
        lambda bgr: as_picture(bgr, "bgra", depth=16),
        lambda bgr: as_picture(bgr, "gray"),
        lambda bgr: as_picture(bgr, "gray", depth=16),
    ],
    ids=["nv12", "nv12 full range", "bgra", "bgr16", "bgra16", "gray", "gray16"],
)
def test_every_layout_gives_the_same_faces(
    open_detector: OpenDetector, group: Array, picture: Callable[[Array], Picture]
) -> None:
    detector = open_detector()
    expected = detector.detect(as_picture(group), (320, 640), 0.7)
    assert len(expected) == 7
    found = detector.detect(picture(group), (320, 640), 0.45)
    assert overlaps(expected.boxes, found.boxes).max(axis=1).min() >= 0.75


@pytest.mark.parametrize(("cut_x", "cut_y"), [(1, 0), (0, 1), (1, 1), (7, 5)])
def test_odd_sizes(open_detector: OpenDetector, group: Array, cut_x: int, cut_y: int) -> None:
    detector = open_detector()
    cut = np.ascontiguousarray(group[: group.shape[0] - cut_y, : group.shape[1] - cut_x])
    packed = detector.detect(as_picture(cut), (320, 640), 0.6)
    assert len(packed) == 7
    same_faces(detector.detect(as_nv12(cut), (320, 640), 0.6).boxes, packed.boxes, 0.75)


def test_pixels_that_are_not_square(open_detector: OpenDetector, group: Array) -> None:
    """Stored at half the width and shown at twice: the same faces at half the width."""
    detector = open_detector()
    expected = detector.detect(as_picture(group), (640,), 0.6).boxes * np.float32((0.5, 1, 0.5, 1))
    squeezed = cv2.resize(group, (250, 375), interpolation=cv2.INTER_AREA)
    for picture in (as_picture(squeezed), as_nv12(squeezed)):
        wide = Picture(**{name: getattr(picture, name) for name in picture.__slots__} | {"pixel_aspect": Fraction(2)})
        same_faces(detector.detect(wide, (640,), 0.6).boxes, expected, 0.7)


def test_portrait_wide_and_tall(open_detector: OpenDetector, group: Array) -> None:
    detector = open_detector()
    expected = detector.detect(as_picture(group), (640,), 0.6).boxes
    tall = np.zeros((1200, 500, 3), np.uint8)
    tall[400:775] = group
    same_faces(detector.detect(as_nv12(tall), (1280,), 0.6).boxes, expected + np.float32((0, 400, 0, 400)), 0.7)
    wide = np.zeros((375, 2600, 3), np.uint8)
    wide[:, 2000:2500] = group
    same_faces(detector.detect(as_nv12(wide), (2560,), 0.6).boxes, expected + np.float32((2000, 0, 2000, 0)), 0.7)


@pytest.mark.parametrize(("width", "height"), [(1, 1), (2, 2), (1, 500), (500, 1), (4000, 3), (17, 4001)])
def test_absurd_sizes_do_not_fail(open_detector: OpenDetector, width: int, height: int) -> None:
    detector = open_detector()
    grey = np.full((height, width, 3), 90, np.uint8)
    for picture in (as_picture(grey), as_nv12(grey)):
        detector.detect(picture, detector.scales_for(width, height), 0.5)


def test_several_scales_find_what_one_misses(open_detector: OpenDetector, shared_data: Path) -> None:
    """A face that fills the picture, and one of 20 px in a large picture; each face once."""
    detector = open_detector()
    photo = next(photo for photo in labelled(shared_data, "consensus", 94) if len(photo.faces) == 1)
    x1, y1, x2, y2 = photo.faces[0].astype(int)
    face = photo.bgr[max(0, y1 - 20) : y2 + 20, max(0, x1 - 20) : x2 + 20]
    scene = np.full((1080, 1920, 3), 110, np.uint8)
    scene[:, :960] = cv2.resize(face, (960, 1080))
    scene[500:526, 1500:1522] = cv2.resize(face, (22, 26), interpolation=cv2.INTER_AREA)
    large, small = np.array([[0, 0, 960, 1080]]), np.array([[1500, 500, 1522, 526]])
    result = detector.detect(as_nv12(scene), (320, 640, 1280), 0.5)
    for box in (large, small):
        assert (overlaps(result.boxes, box) > 0.3).sum() == 1
    alone = detector.detect(as_nv12(scene), (320,), 0.5)
    assert not (overlaps(alone.boxes, small) > 0.3).any()


def test_threads_do_not_disturb_each_other(open_detector: OpenDetector, shared_data: Path) -> None:
    detector = open_detector()
    pictures = [as_nv12(photo.bgr) for photo in labelled(shared_data, "human", 6)] * 2
    alone = [detector.detect(picture, (320, 640), 0.5) for picture in pictures]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda picture: detector.detect(picture, (320, 640), 0.5), pictures))
    for first, second in zip(alone, together, strict=True):
        np.testing.assert_array_equal(first.boxes, second.boxes)
        np.testing.assert_array_equal(first.landmarks, second.landmarks)


@pytest.mark.parametrize(
    ("size", "still", "expected"),
    [
        ((176, 144), False, (320,)),
        ((640, 360), False, (320, 640)),
        ((720, 1280), False, (320, 640, 1280)),
        ((3840, 2160), False, (320, 640, 1280, 1920)),
        ((640, 480), True, (320, 640, 1280)),
        ((1, 1), True, (320,)),
    ],
)
def test_scales_follow_the_size(
    open_detector: OpenDetector, size: tuple[int, int], still: bool, expected: tuple[int, ...]
) -> None:
    assert open_detector().scales_for(*size, still=still) == expected
    assert open_detector(scales=(640, 320, 640)).scales_for(*size) == (320, 640)


def test_what_it_says_about_itself(open_detector: OpenDetector) -> None:
    detector = open_detector("scrfd_500m")
    assert detector.describe().startswith("SCRFD-500M on ONNX Runtime ")
    assert "non-commercial" in detector.describe()
    assert detector.score_threshold == 0.4
    assert open_detector("scrfd_500m", score_threshold=0.25).score_threshold == 0.25


def test_a_model_that_is_not_there() -> None:
    with pytest.raises(InputError):
        open_detector(DetectSettings(model="/nowhere/model.onnx"))
