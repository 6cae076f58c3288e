"""An output and its sidecar appear together or not at all; nothing stays held when something fails on the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge import sidecar as sidecar_module
from edge.anonymize.gate import Anonymizer
from edge.detect.detector import Detector
from edge.errors import StorageError
from edge.inference.local_network import open_detector
from edge.messages import Job
from edge.picture_job import anonymize_picture
from edge.pipeline import Pipeline
from edge.settings import DetectSettings, RecordSettings, RunSettings
from edge.types import Detections, Frame, Picture
from edge.video_job import anonymize_video
from tests.harness.frames import frame, noise
from tests.harness.silent import Silent

RUNNERS = {"video": anonymize_video, "picture": anonymize_picture}


@pytest.fixture(scope="module")
def detector(default_model: Path) -> Detector:
    return open_detector(DetectSettings(model=str(default_model), scales=(320,)))


def job_for(kind: str, sample: Path, folder: Path, deadline_s: float = 20.0) -> Job:
    source = sample
    if kind == "picture":
        source = folder / "in.png"
        cv2.imwrite(str(source), np.full((64, 64, 3), 90, np.uint8))
    settings = RunSettings(record=RecordSettings(sidecar=True), detect=DetectSettings(deadline_s=deadline_s))
    return Job(kind, str(source), folder / f"out{'.mp4' if kind == 'video' else '.png'}", settings)


def written(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name != "in.png")


@pytest.mark.parametrize("kind", RUNNERS)
def test_both_are_published(kind: str, sample: Path, detector: Detector, tmp_path: Path) -> None:
    job = job_for(kind, sample, tmp_path)
    outputs = RUNNERS[kind](job, detector, Silent()).outputs
    assert written(tmp_path) == sorted(path.name for path in outputs)
    assert len(outputs) == 2


@pytest.mark.parametrize("kind", RUNNERS)
def test_a_sidecar_that_is_there_already(kind: str, sample: Path, detector: Detector, tmp_path: Path) -> None:
    job = job_for(kind, sample, tmp_path)
    there = tmp_path / f"{job.output.name}.jsonl"
    there.write_text("of an earlier run")
    with pytest.raises(StorageError, match="exists already"):
        RUNNERS[kind](job, detector, Silent())
    assert written(tmp_path) == [there.name]
    assert there.read_text() == "of an earlier run"


@pytest.mark.parametrize("kind", RUNNERS)
def test_a_sidecar_that_cannot_be_published(
    kind: str, sample: Path, detector: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("disk full")

    job = job_for(kind, sample, tmp_path)
    monkeypatch.setattr(sidecar_module, "publish", fail)
    with pytest.raises(StorageError, match="disk full"):
        RUNNERS[kind](job, detector, Silent())
    assert written(tmp_path) == (["out.mp4.part"] if kind == "video" else [])


@pytest.mark.parametrize("kind", RUNNERS)
def test_an_output_that_cannot_be_published(
    kind: str, sample: Path, detector: Detector, tmp_path: Path
) -> None:
    """Somebody takes its name while the job runs."""

    class Taking(Silent):
        def announce(self, started: Any) -> None:
            job.output.write_text("somebody's")

    job = job_for(kind, sample, tmp_path)
    with pytest.raises(StorageError, match="exists already"):
        RUNNERS[kind](job, detector, Taking())
    assert set(written(tmp_path)) <= {job.output.name, "out.mp4.part"}
    assert job.output.read_text() == "somebody's"


@pytest.fixture
def stuck(detector: Detector) -> Iterator[Any]:
    """The real detector, which never answers until the test is over."""
    over = threading.Event()

    class Stuck:
        name, score_threshold = detector.name, detector.score_threshold
        describe, take_notes, scales_for = detector.describe, detector.take_notes, detector.scales_for

        def detect(self, picture: Picture, scales: Sequence[int], min_score: float) -> Detections:
            over.wait(30)
            return Detections(np.empty((0, 4), np.float32), np.empty(0, np.float32))

    yield Stuck()
    over.set()


def test_a_detector_that_hangs_on_a_picture(stuck: Any, sample: Path, tmp_path: Path) -> None:
    job = job_for("picture", sample, tmp_path, deadline_s=0.2)
    finished = anonymize_picture(job, stuck, Silent())
    assert finished.summary.detector_failures == 1
    assert list(finished.summary.whole_frames) == ["no answer from the detector in 0.2 s"]


@pytest.mark.parametrize("part", ["detector", "anonymizer", "listener", "sink"])
def test_frames_are_given_back_whatever_fails(part: str, detector: Detector) -> None:
    given_back: list[int] = []

    def fail(*_: object, **__: object) -> Any:
        raise MemoryError

    class Source:
        ended, count = False, 0
        ended_early: str | None = None

        def read(self, timeout_s: float) -> Frame | None:
            number, self.count = self.count, self.count + 1
            self.ended = number == 40
            shown = replace(frame(noise(64, 64)), index=number, pts_ns=number * 40_000_000)
            return replace(shown, release=lambda: given_back.append(number))

    class Sink:
        write = fail

    class Finder:
        score_threshold, detect = detector.score_threshold, detector.detect
        scales_for = fail if part == "detector" else detector.scales_for

    settings = RunSettings()
    anonymizer: Any = Anonymizer(settings.mask)
    if part == "anonymizer":
        anonymizer.apply = fail
    source = Source()
    pipeline = Pipeline(
        source, Finder(), anonymizer, Sink(), settings, Silent(), *([fail] if part == "listener" else [])
    )
    with pytest.raises(MemoryError):
        pipeline.run()
    assert sorted(given_back) == list(range(source.count))
