"""The camera process on real RTSP streams: it records, survives what networks do, and says what it waits for."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edge.cameras import (
    CameraSettings,
    CameraSource,
    CustomSource,
    FileSource,
    RecordingSettings,
    RtspSource,
    SecretRef,
)
from edge.settings import DetectSettings, OnDoubt, RunSettings, SourceSettings
from tests.harness.camera_process import CameraProcess
from tests.harness.chaos_proxy import ChaosProxy, Fault
from tests.harness.inference_server import InferenceServer
from tests.harness.oracle import frames, visible
from tests.harness.rtspd import RtspServer
from tests.harness.sample import face_box

H265 = (
    "( videotestsrc is-live=1 pattern=ball ! video/x-raw,width=320,height=240,framerate=15/1 "
    "! x265enc tune=zerolatency key-int-max=15 ! rtph265pay name=pay0 config-interval=1 )"
)


@pytest.fixture(scope="module")
def inference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InferenceServer]:
    with InferenceServer(tmp_path_factory.mktemp("inference")) as server:
        yield server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "recordings"
    path.mkdir()
    return path


def settings(
    source: CameraSource, root: Path, model: Path, on_doubt: OnDoubt = "redact", stall_s: float = 2.0, **more: Any
) -> CameraSettings:
    run = RunSettings(
        detect=DetectSettings(model=str(model), scales=(320,), backend="onnxruntime"),
        source=SourceSettings(stall_timeout_s=stall_s),
    )
    return CameraSettings("door", source, run, RecordingSettings(root, segment_s=4.0), on_doubt, **more)


def segments(root: Path) -> list[Path]:
    assert not list(root.rglob("*.part"))
    return sorted(root.rglob("*.mp4"))


def gaps(root: Path) -> list[str]:
    sidecars = sorted(root.glob("door/2*/*.json"))
    return [gap["reason"] for each in sidecars for gap in json.loads(each.read_text())["gaps"]]


def check(sample: Path, root: Path) -> int:
    """All that was written plays and shows no face; how many frames."""
    found = 0
    for path in segments(root):
        found += sum(1 for _ in frames(path))
        assert visible(sample, path, face_box) == []
    return found


def test_it_records_until_told_to_stop(
    sample: Path, rtsp_sample: RtspServer, default_model: Path, root: Path, inference: InferenceServer
) -> None:
    camera = settings(RtspSource(rtsp_sample.url("sample")), root, default_model)
    with CameraProcess(camera, inference.path) as process:
        process.until(lambda report: report.state == "recording")
        report = process.during(6.0)
        assert process.stop() < 15.0
    assert 10 < report.fps_in < 28              # 25 where the machine keeps up
    assert report.faces > 20
    assert report.delay_s < 3.0
    assert process.longest_silence_s < 10.0
    assert process.report.state == "stopping"
    assert process.fatal is None
    written = check(sample, root)
    assert written == process.report.frames_out
    assert process.report.frames_in - written == sum(process.report.dropped.values())
    assert len(segments(root)) >= 2


@pytest.mark.parametrize("kind", ["stall", "rst", "garbage", "close", "corrupt", "drop"])
def test_it_comes_back(
    kind: Any, sample: Path, rtsp_sample: RtspServer, default_model: Path, root: Path, inference: InferenceServer
) -> None:
    """P5. Damage on the way (corrupt, drop) may also be survived without a new connection."""
    faults = [Fault(kind, 300_000, rate=0.02), Fault("none")]
    with ChaosProxy(rtsp_sample.port, faults) as proxy:
        camera = settings(RtspSource(f"rtsp://127.0.0.1:{proxy.port}/sample"), root, default_model)
        with CameraProcess(camera, inference.path) as process:
            if kind in ("corrupt", "drop"):
                process.until(lambda report: report.whole_frames or report.reconnects, 20)
            else:
                process.until(lambda report: report.reconnects == 1, 20)
            before = process.report.frames_out
            process.until(lambda report: report.state == "recording" and report.frames_out > before + 40, 20)
            process.stop()
    assert check(sample, root) > 40
    if kind not in ("corrupt", "drop"):
        assert "source lost" in gaps(root)


def test_the_server_dies_and_comes_back(
    sample: Path, default_model: Path, root: Path, inference: InferenceServer
) -> None:
    with RtspServer({"sample": sample}) as server:
        camera = settings(RtspSource(server.url("sample")), root, default_model)
        with CameraProcess(camera, inference.path) as process:
            process.until(lambda report: report.frames_out > 20)
            server.stop()
            process.until(lambda report: report.state == "backing_off")
            process.until(lambda report: "connection refused" in report.detail)
            process.during(2.0)
            server.start()
            frames_before = process.report.frames_out
            process.until(lambda report: report.frames_out > frames_before + 20, 20)
            process.stop()
    assert len([text for text in process.texts if "refused" in text]) == 1      # one line per change
    assert "source lost" in gaps(root)
    check(sample, root)


def test_inference_dies_and_comes_back(
    sample: Path, rtsp_sample: RtspServer, default_model: Path, root: Path, tmp_path: Path
) -> None:
    """Frames are hidden whole meanwhile, and recording goes on."""
    with InferenceServer(tmp_path) as inference:
        camera = settings(RtspSource(rtsp_sample.url("sample")), root, default_model)
        with CameraProcess(camera, inference.path) as process:
            process.until(lambda report: report.faces > 20)
            inference.kill()
            process.until(lambda report: report.whole_frames.get("inference down", 0) > 20)
            inference.start()
            faces = process.report.faces
            process.until(lambda report: report.faces > faces + 20)
            process.stop()
    check(sample, root)


def test_doubt_may_mean_to_drop(
    sample: Path, rtsp_sample: RtspServer, default_model: Path, root: Path, tmp_path: Path
) -> None:
    with InferenceServer(tmp_path) as inference:
        camera = settings(RtspSource(rtsp_sample.url("sample")), root, default_model, on_doubt="drop")
        with CameraProcess(camera, inference.path) as process:
            process.until(lambda report: report.faces > 20)
            inference.kill()
            process.until(lambda report: report.dropped.get("inference down", 0) > 20)
            inference.start()
            faces = process.report.faces
            process.until(lambda report: report.faces > faces + 20)
            process.stop()
    assert process.report.whole_frames == {}
    assert check(sample, root) == process.report.frames_out


def test_nothing_is_read_before_the_model_is_known(
    rtsp_sample: RtspServer, default_model: Path, root: Path, tmp_path: Path
) -> None:
    camera = settings(RtspSource(rtsp_sample.url("sample")), root, default_model)
    with CameraProcess(camera, tmp_path / "nobody.sock") as process:
        process.until(lambda report: report.state == "connecting")
        report = process.during(2.5)
        assert (report.state, report.frames_in) == ("connecting", 0)
        assert "inference" in report.detail
        assert report.progress > 5
        assert process.stop() < 8.0


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("rtsp://no-such-host.invalid/a", "the name no-such-host.invalid is not known"),
        ("rtsp://127.0.0.1:9/a", "connection refused"),
        ("rtsp://127.0.0.1:{port}/nothing", "not found"),
    ],
)
def test_what_is_wrong_is_told_apart(
    address: str, told: str, rtsp_sample: RtspServer, default_model: Path, root: Path, inference: InferenceServer
) -> None:
    camera = settings(RtspSource(address.format(port=rtsp_sample.port)), root, default_model)
    with CameraProcess(camera, inference.path) as process:
        process.until(lambda report: report.state == "backing_off" and told in report.detail)
        process.during(3.0)
        assert process.stop() < 8.0
    assert len([text for text in process.texts if told in text]) == 1


@pytest.mark.parametrize("method", ["basic", "digest"])
def test_passwords(
    method: Any, sample: Path, default_model: Path, root: Path, inference: InferenceServer, tmp_path: Path,
    password: str,
) -> None:  # fmt: skip
    """Looked up at each connect: a password that is put right is used without a restart."""
    secret = tmp_path / "password"
    secret.touch(mode=0o600)
    secret.write_text("wrong")
    with RtspServer({"sample": sample}, user="me", password=password, authentication=method) as server:
        source = RtspSource(server.url("sample"), "me", SecretRef("file", str(secret)))
        with CameraProcess(settings(source, root, default_model), inference.path) as process:
            process.until(lambda report: "access refused" in report.detail)
            secret.unlink()
            process.until(lambda report: str(secret) in report.detail)
            secret.touch(mode=0o600)
            secret.write_text(password)
            process.until(lambda report: report.state == "recording")
            command = Path(f"/proc/{process.pid}/cmdline").read_text()
            process.stop()
    said = command + repr(process.reports) + repr(process.events)
    assert password not in said
    check(sample, root)


def test_secrets_are_taken_out_of_what_is_said_about_a_source(
    default_model: Path, root: Path, inference: InferenceServer, tmp_path: Path
) -> None:
    """As where the camera's owner chose a word of the camera's messages."""
    secret = tmp_path / "password"
    secret.touch(mode=0o600)
    secret.write_text("refused")
    source = RtspSource("rtsp://127.0.0.1:1/", "me", SecretRef("file", str(secret)))
    with CameraProcess(settings(source, root, default_model), inference.path) as process:
        process.until(lambda report: report.state == "backing_off" and "***" in report.detail)
        process.stop()
    assert any("***" in text for text in process.texts)
    assert "refused" not in repr(process.reports) + repr(process.events)


def test_a_server_that_never_answers_does_not_keep_it_from_stopping(
    default_model: Path, root: Path, inference: InferenceServer
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        source = RtspSource(f"rtsp://127.0.0.1:{silent.getsockname()[1]}/a")
        with CameraProcess(settings(source, root, default_model), inference.path) as process:
            process.until(lambda report: report.state == "connecting" and report.detector)
            process.during(1.0)
            assert process.stop() < 8.0


def test_h265_and_udp(default_model: Path, root: Path, inference: InferenceServer) -> None:
    with RtspServer({"camera": H265}) as server:
        camera = settings(RtspSource(server.url("camera")), root, default_model)
        run = replace(camera.run, source=replace(camera.run.source, transport="udp"))
        with CameraProcess(replace(camera, run=run), inference.path) as process:
            process.until(lambda report: report.frames_out > 30)
            process.stop()
    assert sum(1 for path in segments(root) for _ in frames(path)) > 30


def test_a_file_is_played_over_and_over(
    sample: Path, default_model: Path, root: Path, inference: InferenceServer
) -> None:
    camera = settings(FileSource(sample), root, default_model)
    camera = replace(camera, recording=replace(camera.recording, segment_s=60.0))
    with CameraProcess(camera, inference.path) as process:
        process.until(lambda report: report.frames_out > 330, 40)
        report = process.report
        process.stop()
    assert 10 < report.fps_in < 28              # 25 where the machine keeps up
    (segment,) = segments(root)
    times = [time_s for time_s, _ in frames(segment)]
    assert len(times) > 300 and times == sorted(set(times))


def test_a_described_source(default_model: Path, root: Path, inference: InferenceServer) -> None:
    text = "videotestsrc is-live=true pattern=ball ! video/x-raw,width=320,height=240,framerate=15/1 ! videoconvert"
    with CameraProcess(settings(CustomSource(text), root, default_model), inference.path) as process:
        process.until(lambda report: report.frames_out > 20)
        process.stop()
    assert sum(1 for path in segments(root) for _ in frames(path)) > 20


@pytest.mark.slow
def test_failing_for_long_costs_nothing(default_model: Path, root: Path, inference: InferenceServer) -> None:
    """P5: the same at the 200th as at the 20th failure. Time is made to pass by reconnecting at once."""
    camera = settings(RtspSource("rtsp://127.0.0.1:9/a"), root, default_model)
    with CameraProcess(camera, inference.path) as process:
        process.until(lambda report: report.state == "backing_off")
        before = process.during(5.0) and process.usage()
        process.during(60.0)
        after = process.usage()
        process.stop()
    assert after["threads"] <= before["threads"] + 1
    assert after["files"] <= before["files"] + 1
    assert after["rss_kib"] < before["rss_kib"] + 2048
    assert time.monotonic() > 0
