"""What a camera process says about itself: totals over all its connections, rates, and the state it is in."""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime, timezone

from edge.live import LiveFlow
from edge.messages import Summary
from edge.pipeline import Pipeline
from edge.recordings.recorder import CameraRecorder
from edge.reports import CameraReport, CameraState

BEHIND = "behind"       # frames that came while the process was busy with earlier ones


class Account:
    """Keeps the report of one camera up to date. Used by the main loop alone."""

    def __init__(self, camera: str, source: str) -> None:
        self.report = CameraReport(camera, source=source)
        self._done = Summary()              # of connections that have ended
        self._behind_done = 0
        self._read_done = 0
        self._rates_s = time.monotonic()
        self._rates_from = (0, 0)
        self.enter("starting")

    def enter(self, state: CameraState, detail: str = "") -> None:
        """Be in this state from now on, unless it is that already."""
        if state != self.report.state or not self.report.since_utc:
            now = datetime.now(timezone.utc)
            self.report.since_utc = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.report.state, self.report.detail = state, detail

    def connection_ended(self, pipeline: Pipeline, behind: int) -> None:
        """Add what one connection gave. behind: frames that its source left out."""
        _add(self._done, pipeline.summary)
        self._read_done += pipeline.frames_read
        self._behind_done += behind

    def update(self, live: LiveFlow, recorder: CameraRecorder, pipeline: Pipeline | None, behind: int) -> None:
        """Bring the report up to date. pipeline, behind: of the connection that is open, None and 0 without one."""
        report, read = self.report, 0
        both = Summary()
        _add(both, self._done)
        if pipeline is not None:
            _add(both, pipeline.summary)
            both.tracks = self._done.tracks + pipeline.tracks
            read = pipeline.frames_read
        dropped = Counter(live.dropped)
        dropped[BEHIND] = self._behind_done + behind
        dropped["disk"] = recorder.dropped
        report.frames_in = self._read_done + read + dropped[BEHIND]
        # A counter: what the disk loses of frames that were counted before is not taken back.
        report.frames_out = max(report.frames_out, both.frames - recorder.dropped)
        report.faces, report.tracks, report.masked_share = both.faces, both.tracks, both.masked_share
        report.whole_frames = dict(both.whole_frames)
        report.dropped = {reason: count for reason, count in dropped.items() if count}
        report.delay_s, report.latency = live.delay_s, live.latency
        report.segments, report.bytes_written, report.segment = (
            recorder.segments, recorder.bytes_written, recorder.segment)  # fmt: skip
        now_s = time.monotonic()
        passed_s = now_s - self._rates_s
        if passed_s > 0:
            frames_in, frames_out = self._rates_from
            report.fps_in = round((report.frames_in - frames_in) / passed_s, 2)
            report.fps_out = round((report.frames_out - frames_out) / passed_s, 2)
        self._rates_s, self._rates_from = now_s, (report.frames_in, report.frames_out)


def _add(total: Summary, summary: Summary) -> None:
    total.frames += summary.frames
    total.faces += summary.faces
    total.tracks += summary.tracks
    total.masked_share_sum += summary.masked_share_sum
    total.whole_frames.update(summary.whole_frames)
    total.detector_failures += summary.detector_failures
