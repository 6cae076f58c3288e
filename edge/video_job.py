"""One video file or stream to one anonymised MP4: puts the parts of the frame path together and runs them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from edge.anonymize.gate import Anonymizer
from edge.anonymize.mark import comment_on
from edge.errors import DeviceLostError, InputError, InterruptedJobError, RetryLater
from edge.messages import Finished, Job, Reporter, Started
from edge.pipeline import Pipeline, ignore_frame
from edge.sidecar import Sidecar, sidecar_path
from edge.video.recorder import Recorder
from edge.video.source import open_source

if TYPE_CHECKING:
    from edge.detect.detector import Detector


def anonymize_video(job: Job, detector: Detector, reporter: Reporter) -> Finished:
    """Run `job` and return its totals and files.

    Raises InputError or RetryLater for the source, StorageError for the output, UnavailableError for a missing part.
    Whatever was recorded by then keeps its ``.part`` name, every frame of it masked; only when a live source is lost
    (RetryLater) is it completed, as a recording that somebody stops.
    """
    settings = job.settings
    with ExitStack() as stack:
        source = open_source(job.source, settings.source, user=job.user, password=job.password)
        stack.callback(source.close)
        detector.warm_up(source.info.width_px, source.info.height_px)
        recorder = Recorder(job.output, settings.record, live=source.info.live, audio_from=source,
                            comment=comment_on(settings.mask))
        stack.callback(recorder.abort)      # does nothing once the recorder is closed
        sidecar = None
        if settings.record.sidecar:
            head = {"source": job.source, "model": detector.name, "mask": settings.mask.method,
                    "comment": comment_on(settings.mask)}  # fmt: skip
            sidecar = Sidecar(sidecar_path(job.output), settings.record.overwrite, head)
            stack.callback(sidecar.abort)
        reporter.announce(
            Started(
                frames=source.info.frames,
                ran_on={
                    "model": detector.describe(),
                    "decoder": source.info.decoder,
                    "encoder": recorder.encoder,
                },
            )
        )
        for text in detector.take_notes():
            reporter.note(text)
        pipeline = Pipeline(
            source,
            detector,
            Anonymizer(settings.mask),
            recorder,
            settings,
            reporter,
            on_frame=sidecar.frame if sidecar else ignore_frame,
        )
        try:
            summary = pipeline.run()
        except DeviceLostError:
            raise
        except RetryLater as error:
            outputs = _complete(recorder, sidecar)
            if not outputs:
                raise
            until_then = f"{error.message}; what came before is in {', '.join(map(str, outputs))}"
            raise RetryLater(until_then, error.remedy) from error
        if summary.stopped and (job.kind == "video" or summary.frames == 0):
            # Half a file under its final name would pass for the whole, and the next run would skip it.
            raise InterruptedJobError(f"{job.source}: interrupted after {summary.frames} frames")
        if summary.frames == 0:
            raise InputError(f"{job.source}: no picture could be decoded", "is it a video, and complete?")
        outputs = _complete(recorder, sidecar)
        for text in (*recorder.notes, *detector.take_notes()):
            reporter.note(text)
        return Finished(summary, outputs)


def _complete(recorder: Recorder, sidecar: Sidecar | None) -> tuple[Path, ...]:
    """Give recording and sidecar their final names, the sidecar first: no output may be without it. All paths; none
    where nothing was recorded."""
    if not recorder.has_written:
        return ()
    described = () if sidecar is None else (sidecar.publish(),)
    outputs = recorder.close()
    if sidecar is not None:
        sidecar.keep()
    return (*outputs, *described)
