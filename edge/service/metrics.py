"""Metrics for Prometheus: the service's status in its text format, on 127.0.0.1. docs/monitoring.md lists them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from edge.recordings.clock import utc_of
from edge.reports import CameraReport, CameraState, InferenceReport, RootReport, ServiceStatus
from edge.service.board_metrics import board_metrics
from edge.service.families import Families, Histograms
from edge.service.reasons import bounded
from edge.service.scrape import ScrapeServer

SERVICE_STATES = ("starting", "running", "degraded", "stopping")
ROOT_STATES = ("ok", "low", "read_only", "missing", "failed")
STAGES = ("detect", "look_ahead", "mask", "write", "segment")


class MetricsServer:
    """Serves the newest status. latest: gives it, or None before there is one; called in the server's thread."""

    def __init__(self, port: int, latest: Callable[[], ServiceStatus | None]) -> None:
        self._latest = latest
        self._registry = CollectorRegistry()
        self._registry.register(StatusCollector(latest))
        self._shown: tuple[ServiceStatus | None, bytes] = (None, b"")
        self._server = ScrapeServer(port, self._page, CONTENT_TYPE_PLAIN_0_0_4)

    @property
    def port(self) -> int:
        """Where it listens, or tries to."""
        return self._server.port

    @property
    def problem(self) -> str:
        """Why nobody can read the metrics just now, one line; empty when they can. The port is tried again."""
        return self._server.problem

    def start(self) -> None:
        """Begin to listen; raises nothing."""
        self._server.start()

    def stop(self) -> None:
        """Close the port and end the thread."""
        self._server.stop()

    def _page(self) -> bytes:
        status = self._latest()
        if status is None or status is not self._shown[0]:      # once a second at most, however often it is asked
            self._shown = (status, generate_latest(self._registry))
        return self._shown[1]


class StatusCollector:
    """A collector of prometheus_client: families of metrics from the newest status, none before there is one."""

    def __init__(self, latest: Callable[[], ServiceStatus | None]) -> None:
        self._latest = latest

    def describe(self) -> list[Metric]:
        """None in advance: registering must not ask for a status."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        status = self._latest()
        if status is None:
            return
        yield from _service(status)
        yield from _cameras({report.camera: report for report in status.cameras}.values())
        running = any(each.name == "inference" and each.state == "running" for each in status.processes)
        yield from _inference(status.inference or InferenceReport(), running)
        if status.keeper is not None:
            yield from _disks({root.directory: root for root in status.keeper.roots}.values())
        if status.board is not None:
            yield from board_metrics(status.board)


def _service(status: ServiceStatus) -> Iterator[Metric]:
    info = GaugeMetricFamily("edge_build_info", "Always 1; the version is in the label.", labels=["version"])
    info.add_metric([status.version], 1)
    yield info
    families = Families(["state"])
    for state in SERVICE_STATES:
        families.gauge("edge_service_state", "1 for the state of the service.", [state], status.state == state)
    yield from families
    families = Families([])
    families.gauge("edge_service_problems", "Problems that edge-status shows.", [], len(status.problems))
    for family, text, when in (
        ("edge_service_start_time_seconds", "When the service started, Unix time.", status.started_utc),
        ("edge_service_status_time_seconds", "When these values were collected, Unix time.", status.written_utc),
    ):
        with contextlib.suppress(ValueError):
            families.gauge(family, text, [], utc_of(when))
    yield from families
    families = Families(["process"])
    for process in {each.name: each for each in status.processes}.values():
        name = [process.name]
        families.gauge("edge_process_up", "1 while the process runs.", name, process.state == "running")
        families.counter("edge_process_restarts", "Restarts of the process.", name, process.restarts)
        families.counter("edge_process_hung", "Times that it was killed for making no progress.", name,
                         process.killed_hung)  # fmt: skip
    yield from families


def _cameras(cameras: Iterable[CameraReport]) -> Iterator[Metric]:
    families, states = Families(["camera"]), Families(["camera", "state"])
    reasons, steps = Families(["camera", "reason"]), Families(["camera", "step"])
    latency = Histograms("edge_camera_latency_seconds", "Time that a frame spent in a stage.", ["camera", "stage"])
    for report in cameras:
        name = [report.camera]
        for state in get_args(CameraState):
            states.gauge("edge_camera_state", "1 for the state of the camera.", [*name, state], report.state == state)
        frames = "Frames, by how far they came: decoded or written."
        steps.counter("edge_camera_frames", frames, [*name, "decoded"], report.frames_in)
        steps.counter("edge_camera_frames", frames, [*name, "written"], report.frames_out)
        for reason, count in bounded(report.whole_frames).items():
            reasons.counter("edge_camera_whole_frames", "Frames masked whole.", [*name, reason], count)
        for reason, count in bounded(report.dropped).items():
            reasons.counter("edge_camera_dropped", "Frames not written.", [*name, reason], count)
        families.counter("edge_camera_faces", "Regions masked, summed over frames.", name, report.faces)
        families.counter("edge_camera_tracks", "Different tracks.", name, report.tracks)
        families.gauge("edge_camera_masked_ratio", "Share of the picture that is masked.", name, report.masked_share)
        families.gauge("edge_camera_delay_seconds", "From arrival to encoder, look-ahead included.", name,
                       report.delay_s)  # fmt: skip
        families.counter("edge_camera_reconnects", "Times that the source was lost.", name, report.reconnects)
        families.counter("edge_camera_segments", "Finished segments.", name, report.segments)
        families.counter("edge_camera_written_bytes", "Bytes of video written.", name, report.bytes_written)
        for stage in STAGES:
            if stage in report.latency:
                latency.add([*name, stage], report.latency[stage])
    for each in (states, steps, reasons, families, latency):
        yield from each


def _inference(report: InferenceReport, running: bool) -> Iterator[Metric]:
    families = Families([])
    families.gauge("edge_inference_ready", "1 while detections are computed.", [],
                   running and report.state == "ready")  # fmt: skip
    families.gauge("edge_inference_clients", "Cameras connected.", [], report.clients)
    families.counter("edge_inference_requests", "Requests of cameras.", [], report.requests)
    families.counter("edge_inference_failures", "Requests that failed.", [], report.failures)
    families.counter("edge_inference_late", "Requests given up as too late.", [], report.late)
    yield from families
    sizes = Histograms("edge_inference_batch_size", "Inputs per run.", [])
    sizes.add_sizes([], report.batches)
    yield from sizes
    for name, text, histogram in (
        ("edge_inference_run_seconds", "Time of a run on the device.", report.run_ms),
        ("edge_inference_wait_seconds", "From the arrival of a request to its run.", report.wait_ms),
    ):
        times = Histograms(name, text, [])
        times.add([], histogram)
        yield from times


def _disks(roots: Iterable[RootReport]) -> Iterator[Metric]:
    families, states = Families(["directory"]), Families(["directory", "state"])
    for root in roots:
        name = [root.directory]
        for state in ROOT_STATES:
            states.gauge("edge_disk_state", "1 for the state of the recordings.", [*name, state], root.state == state)
        families.gauge("edge_disk_free_bytes", "Free space.", name, root.free_bytes)
        families.gauge("edge_disk_floor_bytes", "Recording pauses before free space is less.", name, root.floor_bytes)
        families.gauge("edge_disk_used_bytes", "Recordings.", name, root.used_bytes)
        families.gauge("edge_disk_segments", "Segments there.", name, root.segments)
        families.counter("edge_disk_deleted", "Segments deleted by retention.", name, root.deleted)
        families.counter("edge_disk_recovered", "Unfinished segments made playable.", name, root.recovered)
        families.counter("edge_disk_broken", "Unfinished segments set aside.", name, root.broken)
    yield from states
    yield from families
