"""Decode and encode through the product's own pipeline, with a detector that looks at nothing: what to compare with.

    python -m tests.bench.passthrough INPUT OUTPUT [SECONDS]

Only a benchmark can do this; no option of the product reaches it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from edge.anonymize.gate import Anonymizer
from edge.pipeline import Pipeline
from edge.settings import RunSettings, SourceSettings
from edge.types import Detections, Picture
from edge.video.recorder import Recorder
from edge.video.source import open_source
from tests.harness.silent import Silent


class Nothing:
    """Finds no face, at no cost."""

    score_threshold = 0.5

    def scales_for(self, width_px: int, height_px: int) -> tuple[int, ...]:
        return (320,)

    def detect(self, picture: Picture, scales: Sequence[int], min_score: float) -> Detections:
        return Detections.none()


def main() -> None:
    """Entry point."""
    duration_s = float(sys.argv[3]) if len(sys.argv) > 3 else None
    settings = RunSettings(source=SourceSettings(duration_s=duration_s))
    source = open_source(sys.argv[1], settings.source)
    recorder = Recorder(Path(sys.argv[2]), settings.record, live=False)
    try:
        Pipeline(source, Nothing(), Anonymizer(settings.mask), recorder, settings, Silent()).run()
        recorder.close()
    finally:
        recorder.abort()
        source.close()


if __name__ == "__main__":
    main()
