"""Metrics are what Prometheus expects, and the server stays up whatever its clients do."""

from __future__ import annotations

import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from edge.reports import (
    BoardReport,
    CameraReport,
    Histogram,
    InferenceReport,
    KeeperReport,
    ProcessReport,
    RootReport,
    ServiceStatus,
)
from edge.service import scrape
from edge.service.metrics import MetricsServer, StatusCollector
from edge.service.reasons import LABELS, label


def histogram(*values_ms: float) -> Histogram:
    made = Histogram()
    for value in values_ms:
        made.add(value)
    return made


def status(**changed: object) -> ServiceStatus:
    camera = CameraReport(
        "front", state="recording", frames_in=100, frames_out=90, faces=12, tracks=3, masked_share=0.05,
        whole_frames={"damaged": 3, "the detector was not connected": 2}, dropped={"disk": 5}, delay_s=0.6,
        latency={"detect": histogram(0.5, 7, 7, 30_000), "mask": histogram(1)}, reconnects=2,
    )  # fmt: skip
    values = {
        "version": "1.2", "pid": 1, "state": "running", "started_utc": "2026-01-02T03:04:05Z",
        "written_utc": "2026-01-02T03:04:06.5Z", "written_monotonic_s": 9.0, "config_path": "", "config_sha256": "",
        "cameras": [camera, CameraReport("back", state="failed")],
        "inference": InferenceReport("ready", clients=2, batches={"1": 3, "8": 2, "99": 1, "x": 7}),
        "keeper": KeeperReport(roots=[RootReport('/srv/"a\\b\n', free_bytes=7, deleted=4)]),
        "board": BoardReport(temperatures_c={"tj": 50.5}, gpu_load=0.25, throttled={"oc3": 37}, power_mode="MAXN",
                             power_w=12.0, gpu_memory_bytes=1, memory_available_bytes=2, fan_rpm=3),
        "processes": [ProcessReport("inference", "running", 7, restarts=1, killed_hung=1)],
    }  # fmt: skip
    return ServiceStatus(**(values | changed))  # type: ignore[arg-type]


def samples(shown: ServiceStatus) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: shown))
    return registry


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    made = MetricsServer(0, status)
    made.start()
    yield made
    made.stop()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def fetch(server: MetricsServer, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=2) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return answer.read().decode()


def test_values() -> None:
    value = samples(status()).get_sample_value
    front = {"camera": "front"}
    assert value("edge_build_info", {"version": "1.2"}) == 1
    assert value("edge_service_start_time_seconds") == 1767323045
    assert value("edge_service_status_time_seconds") == 1767323046.5
    assert value("edge_camera_state", front | {"state": "recording"}) == 1
    assert value("edge_camera_state", front | {"state": "failed"}) == 0
    assert value("edge_camera_frames_total", front | {"step": "written"}) == 90
    assert value("edge_camera_whole_frames_total", front | {"reason": "damaged"}) == 3
    assert value("edge_camera_whole_frames_total", front | {"reason": "late"}) == 0      # there from the beginning
    assert value("edge_camera_dropped_total", front | {"reason": "disk"}) == 5
    assert value("edge_disk_deleted_total", {"directory": '/srv/"a\\b\n'}) == 4
    assert value("edge_board_throttle_events_total", {"cause": "oc3"}) == 37
    assert value("edge_process_restarts_total", {"process": "inference"}) == 1


def test_histograms_are_cumulative_and_in_seconds() -> None:
    value = samples(status()).get_sample_value
    stage = {"camera": "front", "stage": "detect"}
    ends = ("0.001", "0.01", "10.0", "+Inf")
    assert [value("edge_camera_latency_seconds_bucket", stage | {"le": end}) for end in ends] == [1, 3, 3, 4]
    assert value("edge_camera_latency_seconds_count", stage) == 4
    assert value("edge_camera_latency_seconds_sum", stage) == pytest.approx(30.0145)
    sizes = [value("edge_inference_batch_size_bucket", {"le": end}) for end in ("1.0", "4.0", "8.0", "32.0", "+Inf")]
    assert sizes == [3, 3, 5, 5, 6]
    assert value("edge_inference_batch_size_sum") == 3 + 16 + 99


def test_inference_that_is_gone_is_not_ready() -> None:
    gone = ProcessReport("inference", "backing_off")
    assert samples(status()).get_sample_value("edge_inference_ready") == 1
    assert samples(status(processes=[gone])).get_sample_value("edge_inference_ready") == 0
    assert samples(status(inference=None)).get_sample_value("edge_inference_ready") == 0


def test_what_hostile_cameras_report_stays_bounded() -> None:
    odd = CameraReport(
        "front", whole_frames={f"reason {number}": 1 for number in range(1000)},
        latency={"detect": Histogram(counts=[1]), "made up": histogram(1)},
    )  # fmt: skip
    shown = status(cameras=[odd, odd], started_utc="\x1b[31m")
    found = [sample for family in StatusCollector(lambda: shown).collect() for sample in family.samples]
    assert len([each for each in found if each.name == "edge_camera_whole_frames_total"]) == len(LABELS)
    assert samples(shown).get_sample_value(
        "edge_camera_whole_frames_total", {"camera": "front", "reason": "other"}) == 1000  # fmt: skip
    assert not [each for each in found if each.name.startswith("edge_camera_latency")]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("damaged", "damaged"), ("masking failed: x", "masking"), ("detector failed", "detector"), ("Late", "late"),
     ("no answer from the inference process", "inference"), ("overload", "overload"), ("behind", "behind"),
     ("disk", "disk"), ("other reasons", "other"), ("", "other"), ("\x00" * 10_000, "other")],
)  # fmt: skip
def test_reasons_have_few_labels(reason: str, expected: str) -> None:
    assert label(reason) == expected


def test_the_page_is_what_prometheus_reads(server: MetricsServer) -> None:
    families = list(text_string_to_metric_families(fetch(server)))
    names = [family.name for family in families]
    assert len(names) == len(set(names)) > 40
    assert all(family.documentation.endswith(".") for family in families)
    series = [(each.name, tuple(sorted(each.labels.items()))) for family in families for each in family.samples]
    assert len(series) == len(set(series))
    assert not [name for name in names if not name.startswith("edge_")]
    disks = next(family for family in families if family.name == "edge_disk_free_bytes")
    assert disks.samples[0].labels == {"directory": '/srv/"a\\b\n'}


def test_all_metrics_are_documented_and_nothing_else(server: MetricsServer) -> None:
    text = (Path(__file__).parents[3] / "docs/monitoring.md").read_text()
    listed = set(re.findall(r"^\| `(edge_\w+)", text, re.MULTILINE))
    shown = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in text_string_to_metric_families(fetch(server))
    }
    assert listed == shown
    used = set(re.findall(r"\bedge_[a-z_]+", text.split("## Alerts")[1]))
    assert used <= shown and len(used) > 6


def test_no_status_yet() -> None:
    server = MetricsServer(0, lambda: None)
    server.start()
    try:
        assert fetch(server) == ""
    finally:
        server.stop()


def test_a_taken_port_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "BIND_INTERVAL_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        server = MetricsServer(other.getsockname()[1], status)
        server.start()
        assert "cannot listen" in server.problem
    try:
        deadline_s = time.monotonic() + 5
        while server.problem and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert "edge_build_info" in fetch(server)
    finally:
        server.stop()


def test_only_loopback(server: MetricsServer) -> None:
    assert server._server._listener is not None
    assert server._server._listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("request_", "expected"),
    [(b"GET /metrics HTTP/1.1\r\n\r\n", b"200"), (b"GET /metrics?x=1 HTTP/1.0\n\n", b"200"),
     (b"GET / HTTP/1.1\r\n\r\n", b"200"),
     (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"), (b"GET /etc/passwd HTTP/1.1\r\n\r\n", b"404"),
     (b"\x16\x03\x01\x00\xa5\r\n\r\n", b"400"), (b"x" * 100_000, b"400"), (b"GET\r\n\r\n", b"400")],
)  # fmt: skip
def test_requests(server: MetricsServer, request_: bytes, expected: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=2) as client:
        client.sendall(request_)
        try:
            answer = client.recv(100)
        except ConnectionResetError:        # it did not read all that was sent before it closed
            answer = b"HTTP/1.1 400"
        assert answer.startswith(b"HTTP/1.1 " + expected)
    assert "edge_build_info" in fetch(server)


def test_slow_and_many_clients_do_not_matter(server: MetricsServer) -> None:
    threads, files = threading.active_count(), open_files()
    clients = []
    for number in range(200):
        client = socket.create_connection(("127.0.0.1", server.port), timeout=2)
        client.send((b"G", b"GET /metrics HTTP/1.1\r\n\r\n", b"GET /metrics HTTP/1.1\r\nX: ")[number % 3])
        clients.append(client)
    started_s = time.monotonic()
    assert "edge_build_info" in fetch(server)
    assert time.monotonic() - started_s < 1.0
    assert threading.active_count() == threads
    assert open_files() - files <= len(clients) + scrape.MAX_CLIENTS
    for client in clients:
        client.close()
    assert "edge_build_info" in fetch(server)


def test_a_client_that_waits_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "DEADLINE_S", 0.2)
    server = MetricsServer(0, status)
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=3) as client:
            assert client.recv(1) == b""
    finally:
        server.stop()


def test_a_defect_in_the_page_does_not_end_the_server() -> None:
    def fail() -> ServiceStatus:
        raise RuntimeError("no")

    server = MetricsServer(0, fail)
    server.start()
    try:
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError, match="500"):
                fetch(server)
    finally:
        server.stop()
