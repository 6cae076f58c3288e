"""One still picture to one anonymised picture of the same format."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from edge.anonymize.gate import Anonymizer
from edge.errors import ConfigError, DeviceLostError, EdgeError
from edge.messages import Finished, Job, Reporter, Started, Summary
from edge.pictures import read_picture, write_picture
from edge.sidecar import Sidecar, sidecar_path
from edge.types import Detections, Frame, Region

if TYPE_CHECKING:
    from edge.detect.detector import Detector


def anonymize_picture(job: Job, detector: Detector, reporter: Reporter) -> Finished:
    """Run `job`. Raises InputError for a picture that cannot be read, StorageError for the output.

    A detector failure masks the whole picture, as it does a frame.
    """
    started_s = time.monotonic()
    still = read_picture(Path(job.source))
    picture = still.picture
    reporter.announce(Started(frames=1, ran_on={"model": detector.describe()}))
    frame = Frame(job.source, 0, 0, picture, 0, 0)
    anonymizer = Anonymizer(job.settings.mask)
    regions: tuple[Region, ...] = ()
    summary = Summary(frames=1)
    try:
        scales = detector.scales_for(picture.width_px, picture.height_px, still=True)
        regions = _regions(detector.detect(picture, scales, detector.score_threshold))
        safe = anonymizer.apply(frame, regions)
    except (ConfigError, DeviceLostError):
        raise       # not about this picture: no later one will fare better
    except Exception as error:      # whatever a detector does, as in `edge.pipeline`
        text = error.message if isinstance(error, EdgeError) else f"{type(error).__name__}: {error}"
        safe = anonymizer.redact(frame, text)
        summary.detector_failures = 1
    for text in detector.take_notes():
        reporter.note(text)
    if safe.redaction == "whole":
        summary.whole_frames[safe.reason] += 1
    summary.faces = summary.tracks = len(regions)
    summary.masked_share_sum = safe.masked_share
    record = job.settings.record
    write_picture(safe, still, job.output, keep_metadata=record.keep_metadata, overwrite=record.overwrite)
    outputs: tuple[Path, ...] = (job.output,)
    if record.sidecar:
        head = {"source": job.source, "model": detector.name, "mask": job.settings.mask.method}
        sidecar = Sidecar(sidecar_path(job.output), record.overwrite, head)
        sidecar.frame(frame, regions, safe.redaction)
        outputs = (*outputs, sidecar.close())
    summary.elapsed_s = time.monotonic() - started_s
    return Finished(summary, outputs)


def _regions(detections: Detections) -> tuple[Region, ...]:
    """Every detection is a face of its own: there is no time to track over."""
    points = detections.landmarks
    return tuple(
        Region(
            box=(float(x1), float(y1), float(x2), float(y2)),
            track_id=i + 1,
            origin="detected",
            landmarks=None if points is None else tuple((float(x), float(y)) for x, y in points[i]),
        )
        for i, (x1, y1, x2, y2) in enumerate(detections.boxes)
    )
