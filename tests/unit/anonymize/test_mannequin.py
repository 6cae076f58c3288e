"""A head over every face, and a face under none: whatever fails, the blur stays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from edge.anonymize import mannequin
from edge.anonymize.gate import Anonymizer
from edge.anonymize.mark import draw_mark
from edge.settings import MaskSettings
from edge.swap.pose import front_in_box
from edge.types import Frame, Landmarks, Layout, Picture, Region
from tests.unit.anonymize.test_methods import bgr_from_nv12, noise

Box = tuple[float, float, float, float]


def swap(picture: Picture, box: Box, landmarks: Landmarks | None = None, track: int = 1, method: str = "swap") -> Any:
    anonymizer = Anonymizer(MaskSettings(method=method))  # type: ignore[arg-type]
    return anonymizer.apply(Frame("t", 0, 0, picture, 0, 0), [Region(box, track, "detected", landmarks)])


def points_in(box: Box) -> Landmarks:
    return tuple((x, y) for x, y in front_in_box(box).tolist())


def test_a_head_is_drawn_and_said() -> None:
    picture, blurred = noise(640, 360), noise(640, 360)
    box = (250.0, 80.0, 370.0, 240.0)
    assert swap(picture, box, points_in(box)).swapped == (1,)
    swap(blurred, box, method="blur")
    changed = picture.planes[0].samples[80:240, 250:370] != blurred.planes[0].samples[80:240, 250:370]
    assert changed.mean() > 0.8
    shown = bgr_from_nv12(picture).astype(int)
    assert np.ptp(shown[150:170, 300:320], axis=(0, 1)).max() < 140        # smooth, where noise was


@pytest.mark.parametrize("stage", ["view", "similarity", "pose_of", "_warped", "_light", "_lit", "_tone", "_reach"])
@pytest.mark.parametrize("fails_with", [RuntimeError("injected"), MemoryError(), ZeroDivisionError()], ids=repr)
def test_a_stage_that_fails_leaves_the_blur(stage: str, fails_with: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise fails_with

    picture, expected = noise(320, 240), noise(320, 240)
    box = (100.0, 60.0, 180.0, 170.0)
    monkeypatch.setattr(mannequin, stage, fail)
    safe = swap(picture, box, points_in(box))
    assert (safe.redaction, safe.swapped) == ("regions", ())
    swap(expected, box, method="blur")
    draw_mark(expected)
    for one, other in zip(picture.planes, expected.planes, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)


@pytest.mark.parametrize("layout", ["nv12", "bgr", "bgra", "gray"])
@pytest.mark.parametrize(
    "box", [(-30, -30, 20, 20), (90, 70, 140, 120), (-400, -400, 600, 600), (50, 40, 50, 40), (40, 30, 52, 44)], ids=str
)
def test_at_the_border_huge_and_tiny(layout: Layout, box: Box) -> None:
    assert swap(noise(101, 81, layout), box, points_in(box)).redaction == "regions"
    assert swap(noise(101, 81, layout), box).redaction == "regions"


@pytest.mark.parametrize(
    "landmarks",
    [((0.0, 0.0),) * 5, ((float("nan"), 0.0),) * 5, ((1e30, -1e30),) * 5, ((1.0, 2.0),), (), ((5.0, 5.0), (6.0, 5.0))],
    ids=str,
)
def test_landmarks_that_make_no_sense(landmarks: Landmarks) -> None:
    picture, plain = noise(200, 160), noise(200, 160)
    box = (60.0, 40.0, 120.0, 120.0)
    assert swap(picture, box, landmarks).redaction == "regions"
    swap(plain, box)
    np.testing.assert_array_equal(picture.planes[0].samples, plain.planes[0].samples)   # as if there were none


def test_nothing_of_the_face_but_means_gets_into_the_picture() -> None:
    """Two faces that a blur makes the same become the same head."""
    box = (100.0, 60.0, 180.0, 170.0)
    one, other = noise(320, 240), noise(320, 240)
    swap(one, box, method="blur")                           # what is left of it
    before = one.planes[0].samples.copy()
    swap(other, box, points_in(box))
    swap(one, box, points_in(box))
    inside = np.abs(one.planes[0].samples.astype(int) - other.planes[0].samples)[90:140, 120:160]
    assert inside.max() <= 12 and before.std() > 10         # a blur of the blur differs by the rounding of its levels


def test_a_track_keeps_its_head_and_does_not_tremble() -> None:
    anonymizer = Anonymizer(MaskSettings(method="swap"))
    random, box = np.random.default_rng(2), (100.0, 60.0, 180.0, 170.0)
    shown = []
    for index in range(30):
        picture = noise(320, 240)
        shaken = tuple((x, y) for x, y in (front_in_box(box) + random.normal(0, 1.0, (5, 2))).tolist())
        anonymizer.apply(Frame("t", 0, index, picture, 0, 0), [Region(box, 5, "detected", shaken)])
        shown.append(picture.planes[0].samples[70:160, 110:170].astype(float))
    steps = [np.abs(after - before).mean() for before, after in pairwise(shown[10:])]
    assert float(np.mean(steps)) < 4.0


@pytest.mark.parametrize("layout", ["nv12", "bgr", "bgra", "gray"])
@pytest.mark.parametrize(("width", "height"), [(640, 360), (1920, 1080), (101, 81), (8, 8), (33, 200)])
def test_the_mark_is_seen_and_stays_in_its_corner(layout: Layout, width: int, height: int) -> None:
    picture, before = noise(width, height, layout), noise(width, height, layout)
    draw_mark(picture)
    changed = (picture.planes[0].samples != before.planes[0].samples).reshape(height, width, -1).any(axis=-1)
    assert changed.any()
    rows, columns = np.nonzero(changed)
    assert rows.min() >= height - max(height // 14, 24) and columns.min() <= max(4, height // 20)


def test_zones_are_mosaics_and_carry_no_head() -> None:
    from edge.settings import Zone

    zone = Zone("always", ((0.2, 0.2), (0.6, 0.2), (0.6, 0.6), (0.2, 0.6)))
    one, other = noise(320, 240), noise(320, 240)
    Anonymizer(MaskSettings(method="swap", zones=(zone,))).apply(Frame("t", 0, 0, one, 0, 0), [])
    Anonymizer(MaskSettings(method="pixelate", zones=(zone,))).apply(Frame("t", 0, 0, other, 0, 0), [])
    np.testing.assert_array_equal(one.planes[0].samples[:200], other.planes[0].samples[:200])
