"""Cameras that are not what they were before: other codec, size and rate, lost packets, motion JPEG."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edge.cameras import RtspSource
from tests.e2e.test_camera import H265, check, gaps, segments, settings
from tests.harness.camera_process import CameraProcess
from tests.harness.inference_server import InferenceServer
from tests.harness.rtspd import RtspServer

PATIENCE_S = 60.0
# RTP carries JPEG with halved chroma only (RFC 2435, 4.1): another one makes the server here hang.
MOTION_JPEG = (
    "( videotestsrc is-live=1 ! video/x-raw,format=I420,width=320,height=240,framerate=10/1 ! jpegenc "
    "! rtpjpegpay name=pay0 pt=26 )"
)
# Every tenth coded picture is lost on the way.
LOSSY = "( filesrc location={} ! qtdemux ! h264parse ! identity drop-probability=0.1 ! rtph264pay name=pay0 )"
ANOTHER_RATE = (
    "( videotestsrc is-live=1 pattern=ball ! video/x-raw,width=640,height=360,framerate=10/1 "
    "! x264enc tune=zerolatency key-int-max=10 ! rtph264pay name=pay0 config-interval=1 )"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InferenceServer]:
    with InferenceServer(tmp_path_factory.mktemp("inference")) as inference:
        yield inference


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "recordings"
    path.mkdir()
    return path


@pytest.mark.parametrize("launch", [H265, ANOTHER_RATE], ids=["codec and size", "rate"])
def test_it_comes_back_as_another(
    launch: str, sample: Path, default_model: Path, folder: Path, server: InferenceServer
) -> None:
    with RtspServer({"camera": sample}) as first:
        camera = settings(RtspSource(first.url("camera")), folder, default_model)
        with CameraProcess(camera, server.path) as process:
            process.until(lambda report: report.frames_out > 20, PATIENCE_S)
            first.stop()
            with RtspServer({"camera": launch}, port=first.port):
                before = process.report.frames_out
                process.until(lambda report: report.reconnects > 0 and report.frames_out > before + 20, PATIENCE_S)
                process.stop()
    sidecars = [json.loads(path.with_suffix(".json").read_text()) for path in segments(folder)]
    assert "source lost" in gaps(folder)
    sizes = [(each["width_px"], each["height_px"]) for each in sidecars]
    assert sizes[0] == (640, 360) and sizes[-1] == ((320, 240) if launch == H265 else (640, 360))
    rates = [each["frames"] / each["duration_s"] for each in sidecars]
    assert rates[0] > 18 > rates[-1], rates


def test_motion_jpeg_over_rtsp(default_model: Path, folder: Path, server: InferenceServer) -> None:
    with RtspServer({"camera": MOTION_JPEG}) as jpegs:
        camera = settings(RtspSource(jpegs.url("camera")), folder, default_model)
        with CameraProcess(camera, server.path) as process:
            process.until(lambda report: report.frames_out > 20, PATIENCE_S)
            process.stop()
    assert sum(json.loads(path.with_suffix(".json").read_text())["frames"] for path in segments(folder)) > 20


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_lost_pictures_show_no_face(
    transport: str, sample: Path, default_model: Path, folder: Path, server: InferenceServer
) -> None:
    with RtspServer({"camera": LOSSY.format(sample)}) as lossy:
        camera = settings(RtspSource(lossy.url("camera")), folder, default_model)
        run = replace(camera.run, source=replace(camera.run.source, transport=transport))  # type: ignore[arg-type]
        with CameraProcess(replace(camera, run=run), server.path) as process:
            process.until(lambda report: report.frames_out > 100, PATIENCE_S)
            process.stop()
    assert check(sample, folder) > 100
