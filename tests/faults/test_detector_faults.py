"""P1: whatever a detector does, at whatever frame, no face is left in the output."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge.anonymize.gate import Anonymizer
from edge.detect.detector import Detector
from edge.errors import ConfigError, DeviceLostError, EdgeError
from edge.inference.local_network import open_detector
from edge.messages import Summary
from edge.pipeline import UNSURE, Pipeline
from edge.settings import DetectSettings, RunSettings, TrackSettings
from edge.types import Detections, Picture
from edge.video.recorder import Recorder
from edge.video.source import open_source
from tests.harness.oracle import sights, visible
from tests.harness.sample import face_box
from tests.harness.silent import Silent

Fault = Callable[[], Any]
EVERY_FRAME = range(100_000)


class FaultyDetector:
    """The real detector, which misbehaves at the calls in `at`."""

    def __init__(self, real: Detector, fault: Fault, at: Sequence[int]) -> None:
        self._real, self._fault, self._at = real, fault, at
        self.score_threshold = real.score_threshold
        self.calls = 0

    def scales_for(self, width_px: int, height_px: int) -> tuple[int, ...]:
        return self._real.scales_for(width_px, height_px)

    def detect(self, picture: Picture, scales: Sequence[int], min_score: float) -> Any:
        self.calls += 1
        if self.calls - 1 in self._at:
            return self._fault()
        return self._real.detect(picture, scales, min_score)


def raise_error() -> Any:
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


def raise_memory_error() -> Any:
    raise MemoryError


def boxes_of(value: float) -> Callable[[], Detections]:
    return lambda: Detections(np.full((1, 4), value, np.float32), np.ones(1, np.float32))


def wrong_shape() -> Any:
    return Detections(np.zeros((3, 5), np.float32), np.zeros(3, np.float32))


def nan_scores() -> Detections:
    return Detections(np.array([[10, 10, 60, 60]], np.float32), np.array([np.nan], np.float32))


FAULTS: dict[str, Fault] = {
    "raises": raise_error,
    "out of memory": raise_memory_error,
    "returns None": lambda: None,
    "returns an array": lambda: np.zeros((1, 5), np.float32),
    "wrong shape": wrong_shape,
    "NaN boxes": boxes_of(float("nan")),
    "infinite boxes": boxes_of(float("inf")),
    "empty boxes": boxes_of(0.0),
    "NaN scores": nan_scores,
}
PLACES: dict[str, Sequence[int]] = {
    "first": [0],
    "middle": [60],
    "run": range(50, 80),
    "scattered": range(3, 125, 17),
    "last": [124],
    "always": EVERY_FRAME,
}


@pytest.fixture(scope="module")
def detector(default_model: Path) -> Detector:
    return open_detector(DetectSettings(model=str(default_model)))


def run(sample: Path, output: Path, detector: Any, settings: RunSettings | None = None) -> Summary:
    """The product's pipeline on the sample with this detector."""
    settings = settings or RunSettings()
    source = open_source(str(sample), settings.source)
    recorder = Recorder(output, settings.record, live=False)
    try:
        summary = Pipeline(source, detector, Anonymizer(settings.mask), recorder, settings, Silent()).run()
        recorder.close()
    finally:
        recorder.abort()
        source.close()
    return summary


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", ["raises", "NaN boxes"])
def test_at_any_frame(short_sample: Path, tmp_path: Path, detector: Detector, fault: str, place: str) -> None:
    check(short_sample, tmp_path, detector, FAULTS[fault], PLACES[place])


@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - {"raises", "NaN boxes"}))
def test_of_any_kind(short_sample: Path, tmp_path: Path, detector: Detector, fault: str) -> None:
    check(short_sample, tmp_path, detector, FAULTS[fault], range(60, 120, 9))


def check(sample: Path, tmp_path: Path, detector: Detector, fault: Fault, at: Sequence[int]) -> None:
    output = tmp_path / "out.mp4"
    summary = run(sample, output, FaultyDetector(detector, fault, at))
    assert summary.frames == 125
    seen = sights(sample, output, face_box)
    assert len(seen) > 60 and not any(sight.visible for sight in seen)
    expected = len(set(at) & set(range(125)))
    unsure = summary.whole_frames.pop(UNSURE, 0)            # before a run of failures
    assert sum(summary.whole_frames.values()) == expected
    assert unsure <= 7


def test_failures_while_a_face_comes_into_view(sample: Path, tmp_path: Path, detector: Detector) -> None:
    """A face that is missed in its first frame, found only after a run of failures, and later than the look-ahead."""
    settings = RunSettings(detect=DetectSettings(scales=(320,)), track=TrackSettings(look_ahead_s=0.2))
    output = tmp_path / "out.mp4"
    at = [frame for start in range(0, 300, 8) for frame in range(start, start + 4)]
    summary = run(sample, output, FaultyDetector(detector, raise_error, at), settings)
    assert visible(sample, output, face_box) == []
    assert 0 < summary.whole_frames[UNSURE] < 150


def test_a_detector_that_hangs_is_taken_for_dead(sample: Path, tmp_path: Path, detector: Detector) -> None:
    settings = RunSettings(detect=DetectSettings(deadline_s=0.5))
    hanging = FaultyDetector(detector, lambda: time.sleep(2.0), [150])
    summary = run(sample, tmp_path / "out.mp4", hanging, settings)
    # Frames that a stuck thread still looks at are dropped: one, or two when the other thread was at work.
    assert 298 <= summary.frames <= 299
    assert sum(summary.whole_frames.values()) >= 100        # more where other runs take longer than half a second, too
    assert visible(sample, tmp_path / "out.mp4", face_box) == []
    time.sleep(2.0)     # its thread ends by itself


@pytest.mark.parametrize("kind", [DeviceLostError, ConfigError])
def test_what_no_later_frame_will_cure_ends_the_job(
    sample: Path, tmp_path: Path, detector: Detector, kind: type[EdgeError]
) -> None:
    """P7: a broken GPU ends the process with its exit code. What was written by then is masked."""

    def fail() -> Any:
        raise kind("the GPU is lost")

    with pytest.raises(kind, match="the GPU is lost"):
        run(sample, tmp_path / "out.mp4", FaultyDetector(detector, fail, range(150, 1000)))
    assert not (tmp_path / "out.mp4").exists()
    for part in tmp_path.glob("*.part"):
        assert visible(sample, part, face_box) == []


def test_masks_that_fail_hide_the_frame_whole(
    sample: Path, tmp_path: Path, detector: Detector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect in an anonymiser: every third mask raises half-way."""
    from edge.anonymize import pixelate

    original, calls = pixelate.Pixelate.paint, [0]

    def paint(self: Any, *arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] % 3 == 0:
            raise ValueError("injected")
        return original(self, *arguments)

    monkeypatch.setattr(pixelate.Pixelate, "paint", paint)
    summary = run(sample, tmp_path / "out.mp4", detector)
    assert sum(summary.whole_frames.values()) > 30
    assert visible(sample, tmp_path / "out.mp4", face_box) == []


def test_without_faults_nothing_is_masked_whole(sample: Path, tmp_path: Path, detector: Detector) -> None:
    summary = run(sample, tmp_path / "out.mp4", detector)
    assert not summary.whole_frames
    assert summary.faces > 150
    assert visible(sample, tmp_path / "out.mp4", face_box) == []
