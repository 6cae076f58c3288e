"""The oracle of the fault campaign can fail: it sees unmasked faces, and leaves masked ones alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge.types import UInt8
from tests.faults.test_oracle import encode
from tests.harness.campaign.oracle import Oracle, labelled_boxes, sample_boxes
from tests.harness.oracle import frames

EVERY = 4       # frame of the sample is taken: a recording has gaps, and a test has little time


@pytest.fixture(scope="module")
def oracle(sample: Path) -> Oracle:
    return Oracle(sample)


@pytest.fixture(scope="module")
def pictures(sample: Path) -> list[tuple[float, UInt8]]:
    return list(frames(sample))[100::EVERY]     # recordings start anywhere


def mosaic(face: UInt8, blocks: int) -> UInt8:
    small = cv2.resize(face, (blocks, blocks), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(small, face.shape[::-1], interpolation=cv2.INTER_NEAREST), np.uint8)


MASKS: dict[str, Callable[[UInt8], UInt8]] = {
    "coarse mosaic": lambda face: mosaic(face, 6),
    "mosaic": lambda face: mosaic(face, 10),
    "blur": lambda face: np.asarray(cv2.GaussianBlur(face, (0, 0), max(1.0, face.shape[1] / 8)), np.uint8),
    "solid": lambda face: np.full_like(face, 127),
}


def masked(picture: UInt8, time_s: float, mask: Callable[[UInt8], UInt8]) -> UInt8:
    picture = picture.copy()
    for x1, y1, x2, y2 in sample_boxes(time_s):
        dx, dy = 0.15 * (x2 - x1), 0.15 * (y2 - y1)
        left, top, right, bottom = (max(0, round(value)) for value in (x1 - dx, y1 - dy, x2 + dx, y2 + dy))
        if (face := picture[top:bottom, left:right]).size:
            picture[top:bottom, left:right] = mask(face)
    return picture


@pytest.mark.parametrize("crf", [18, 28, 40])
def test_unmasked_faces_are_seen(
    oracle: Oracle, pictures: list[tuple[float, UInt8]], tmp_path: Path, crf: int
) -> None:
    shown = [(time_s, picture) for time_s, picture in pictures if oracle.shows_face(time_s)]
    copy = encode([picture for _, picture in shown], tmp_path / "copy.mp4", crf)
    assert len(shown) > 30
    assert [round(time_s, 2) for time_s, seen in oracle.look(copy) if not seen] == []


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("crf", [18, 32])
def test_masked_faces_are_left_alone(
    oracle: Oracle, pictures: list[tuple[float, UInt8]], tmp_path: Path, name: str, crf: int
) -> None:
    output = encode([masked(picture, time_s, MASKS[name]) for time_s, picture in pictures], tmp_path / "m.mp4", crf)
    assert [round(time_s, 2) for time_s, seen in oracle.look(output) if seen] == []


def test_frames_that_hold_no_picture_are_left_alone(oracle: Oracle, pictures: list[tuple[float, UInt8]]) -> None:
    random = np.random.default_rng(3)
    whole = [cv2.resize(mosaic(picture, 16), (640, 360)) for _, picture in pictures[::8]]
    for picture in (*whole, np.full((360, 640), 16, np.uint8), random.integers(0, 255, (360, 640), np.uint8)):
        assert not oracle.sees(np.asarray(picture, np.uint8))


def test_one_unmasked_frame_is_seen(oracle: Oracle, pictures: list[tuple[float, UInt8]], tmp_path: Path) -> None:
    hidden = [masked(picture, time_s, MASKS["coarse mosaic"]) for time_s, picture in pictures]
    hidden[5] = pictures[5][1]
    output = encode(hidden, tmp_path / "one.mp4", 23)
    assert [number for number, (_, seen) in enumerate(oracle.look(output)) if seen] == [5]


def test_a_face_at_the_wrong_place_of_a_damaged_picture_is_seen(
    oracle: Oracle, pictures: list[tuple[float, UInt8]]
) -> None:
    seen = []
    for time_s, picture in pictures:
        for box in sample_boxes(time_s):
            x1, y1, x2, y2 = (round(value) for value in box)
            if y2 - y1 > 100 and x1 >= 0 and y1 >= 0 and x2 <= 640 and y2 <= 360:
                damaged = np.random.default_rng(5).integers(60, 180, (360, 640), np.uint8)
                damaged[20 : 20 + y2 - y1, 350 : 350 + x2 - x1] = picture[y1:y2, x1:x2]
                seen.append(oracle.sees(damaged))
    assert len(seen) > 10 and sum(seen) > 0.6 * len(seen)


def test_another_size_of_the_picture_does_not_matter(oracle: Oracle, pictures: list[tuple[float, UInt8]]) -> None:
    shown = [picture for time_s, picture in pictures if oracle.shows_face(time_s)]
    assert all(oracle.sees(np.asarray(cv2.resize(picture, (480, 270)), np.uint8)) for picture in shown[::5])


def test_a_real_clip_with_labels(shared_data: Path, tmp_path: Path) -> None:
    clip, labels = (shared_data / "videos" / name for name in ("real/signer_04.mkv", "labels/signer_04.json"))
    boxes = labelled_boxes(labels)
    oracle, shown = Oracle(clip, boxes), list(frames(clip))
    copy = encode([picture for _, picture in shown], tmp_path / "copy.mp4", 34)
    assert all(seen for _, seen in oracle.look(copy))
    for time_s, picture in shown:
        for x1, y1, x2, y2 in boxes(time_s):
            face = picture[max(0, round(y1)) : round(y2), max(0, round(x1)) : round(x2)]
            face[:] = mosaic(face, 8)
    output = encode([picture for _, picture in shown], tmp_path / "masked.mp4", 23)
    assert not any(seen for _, seen in oracle.look(output))
