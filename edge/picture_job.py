"""One still picture to one anonymised picture of the same format."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edge.anonymize.gate import Anonymizer
from edge.anonymize.mark import comment_on
from edge.errors import ConfigError, DetectorError, DeviceLostError, EdgeError
from edge.messages import Finished, Job, Reporter, Started, Summary
from edge.pictures import read_picture, write_picture
from edge.sidecar import Sidecar, sidecar_path
from edge.types import Detections, Frame, Picture, Region

if TYPE_CHECKING:
    from edge.detect.detector import Detector


def anonymize_picture(job: Job, detector: Detector, reporter: Reporter) -> Finished:
    """Run `job`. Raises InputError for a picture that cannot be read, StorageError for the output.

    A detector that fails, or gives no answer in `deadline_s`, has the whole picture masked, as with a frame.
    """
    started_s = time.monotonic()
    record = job.settings.record
    with ExitStack() as stack:
        still = read_picture(Path(job.source))
        sidecar = None
        if record.sidecar:
            head = {"source": job.source, "model": detector.name, "mask": job.settings.mask.method,
                    "comment": comment_on(job.settings.mask)}  # fmt: skip
            sidecar = Sidecar(sidecar_path(job.output), record.overwrite, head)
            stack.callback(sidecar.abort)
        reporter.announce(Started(frames=1, ran_on={"model": detector.describe()}))
        frame = Frame(job.source, 0, 0, still.picture, 0, 0)
        anonymizer = Anonymizer(job.settings.mask)
        regions: tuple[Region, ...] = ()
        summary = Summary(frames=1)
        try:
            regions = _regions(_detect(detector, still.picture, job.settings.detect.deadline_s))
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
        outputs: tuple[Path, ...] = (job.output,)
        if sidecar is not None:
            sidecar.frame(frame, regions, safe)
            outputs = (*outputs, sidecar.publish())
        write_picture(safe, still, job.output, keep_metadata=record.keep_metadata, overwrite=record.overwrite)
        if sidecar is not None:
            sidecar.keep()
        summary.elapsed_s = time.monotonic() - started_s
        return Finished(summary, outputs)


def _detect(detector: Detector, picture: Picture, deadline_s: float) -> Detections:
    """Run the detector. Raises what it raises, or DetectorError when it gives no answer in `deadline_s`.

    A call that hangs cannot be stopped: it stays in a thread that ends with the process, with a copy of the picture,
    as the picture itself will be masked meanwhile.
    """
    result: Future[Detections] = Future()
    own = replace(picture, planes=tuple(replace(plane, samples=plane.samples.copy()) for plane in picture.planes))

    def work() -> None:
        try:
            scales = detector.scales_for(own.width_px, own.height_px, still=True)
            result.set_result(detector.detect(own, scales, detector.score_threshold))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=work, name="detect", daemon=True).start()
    try:
        return result.result(deadline_s)
    except FutureTimeoutError:
        if result.done():
            raise       # the detector's own
        raise DetectorError(f"no answer from the detector in {deadline_s:g} s") from None


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
