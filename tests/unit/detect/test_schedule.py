"""Which scales look at which frame."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from edge.detect.schedule import CutDetector, ScanSchedule
from edge.types import Layout
from tests.harness.frames import noise
from tests.unit.detect.photos import as_nv12, as_picture, labelled


def looks(schedule: ScanSchedule, times_s: list[float], cuts: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    return [schedule.next(time_s, place in cuts) for place, time_s in enumerate(times_s)]


@pytest.mark.parametrize("fps", [24.0, 25.0, 29.97, 30.0, 50.0, 60.0])
@pytest.mark.parametrize("scales", [(320, 640), (320, 640, 1280), (320, 640, 1280, 1920)])
@pytest.mark.parametrize("interval_s", [0.1, 0.25])
def test_every_scale_in_its_time_and_work_is_even(fps: float, scales: tuple[int, ...], interval_s: float) -> None:
    times_s = [n / fps for n in range(300)]
    seen = looks(ScanSchedule(scales, interval_s), times_s)
    assert seen[0] == scales
    assert all(320 in each for each in seen)
    for scale in scales[1:]:
        own = [time_s for time_s, each in zip(times_s, seen, strict=True) if scale in each]
        assert max(np.diff(own)) <= interval_s + 1e-6
        assert min(np.diff(own)[2:]) >= interval_s - 2 / fps - 1e-6         # and not much more often
    per_interval = interval_s * fps
    most = -(-(len(scales) - 1) // int(per_interval))
    assert max(len(each) - 1 for each in seen[20:]) <= most + 1


@pytest.mark.parametrize("times_s", [[n / 5 for n in range(9)], [n * 0.1 for n in range(9)]])
def test_slow_video_sees_everything(times_s: list[float]) -> None:
    assert set(looks(ScanSchedule((320, 640), 0.1), times_s)) == {(320, 640)}


def test_no_interval_means_everything() -> None:
    assert set(looks(ScanSchedule((640, 320), 0.0), [n / 60 for n in range(9)])) == {(320, 640)}


def test_everything_after_a_cut_and_when_time_jumps() -> None:
    times_s = [0, 0.01, 0.02, 0.03, 0.04, 0.01, 0.02, 9.0, 9.01]
    seen = looks(ScanSchedule((320, 640), 0.1), times_s, cuts=(3,))
    assert [place for place, each in enumerate(seen) if 640 in each] == [0, 3, 5, 7]


def test_repeated_times_do_not_starve_the_large_scales() -> None:
    """A broken file in which every frame has the same time: no time passes, so everything must look."""
    seen = looks(ScanSchedule((320, 640), 0.1), [1.0] * 50)
    assert sum(640 in each for each in seen) >= 10


def test_no_scales_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no scales"):
        ScanSchedule((), 0.1)


@pytest.mark.parametrize("layout", ["nv12", "bgr", "bgra", "gray"])
def test_noise_and_the_same_scene_are_no_cut(layout: Layout) -> None:
    cuts = CutDetector()
    assert [cuts.is_cut(noise(640, 360, layout, seed=seed)) for seed in range(3)] == [False] * 3


def test_scenes_of_real_photos_are_cuts_and_small_changes_are_not(shared_data) -> None:
    photos = [cv2.resize(photo.bgr, (640, 360)) for photo in labelled(shared_data, "human", 12)]
    cuts = CutDetector()
    found = [cuts.is_cut(as_nv12(photo)) for photo in photos]
    assert found[0] is False
    assert sum(found) >= 10
    scene = photos[0]
    moved = np.roll(scene, 12, axis=1)
    brighter = np.clip(scene.astype(int) + 40, 0, 255).astype(np.uint8)
    cuts.is_cut(as_nv12(scene))
    assert [cuts.is_cut(as_nv12(each)) for each in (moved, scene, brighter, scene)] == [False] * 4


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (31, 17), (4000, 2)])
def test_tiny_pictures(size: tuple[int, int]) -> None:
    cuts = CutDetector()
    black = as_picture(np.zeros((size[1], size[0], 3), np.uint8))
    assert [cuts.is_cut(black), cuts.is_cut(black)] == [False, False]
    assert cuts.is_cut(as_picture(np.zeros((size[1], size[0], 3), np.uint8), "bgr", 16)) is False
