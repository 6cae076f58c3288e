"""A camera that is lost just when somebody comes into view: no later frame tells what the detector missed."""

from __future__ import annotations

from pathlib import Path

from edge.anonymize.gate import Anonymizer
from edge.cameras import FileSource
from edge.inference.local_network import open_detector
from edge.live import LiveFlow
from edge.pipeline import UNSURE, Pipeline
from edge.settings import DetectSettings, RunSettings, SourceSettings, TrackSettings
from edge.video.inputs import input_of
from edge.video.paced import PacedFile
from edge.video.recorder import Recorder
from tests.harness import sample as clip
from tests.harness.oracle import sights
from tests.harness.silent import Silent

# The face comes in from above, and is found in the frame after these.
FRAMES = 224


def test_the_last_moments_are_hidden(sample: Path, tmp_path: Path, default_model: Path) -> None:
    cut = clip.ensure(count=FRAMES)
    settings = RunSettings(
        detect=DetectSettings(model=str(default_model), scales=(320,)), track=TrackSettings(look_ahead_s=0.2)
    )
    output = tmp_path / "out.mp4"
    source = PacedFile(input_of(FileSource(cut)), SourceSettings(), loop=False)
    recorder, detector = Recorder(output, settings.record, live=True), open_detector(settings.detect)
    try:
        flow = LiveFlow(late_s=60.0)
        summary = Pipeline(source, detector, Anonymizer(settings.mask), recorder, settings, Silent(), live=flow).run()
        recorder.close()
    finally:
        recorder.abort()
        source.close()
        detector.close()
    assert summary.frames + flow.dropped.total() + source.behind >= FRAMES
    assert 2 <= summary.whole_frames[UNSURE] <= 4
    if summary.frames == FRAMES:        # else the frames of both do not belong together
        assert not [sight for sight in sights(cut, output, clip.face_box) if sight.visible]
