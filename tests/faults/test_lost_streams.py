"""A camera that goes away in mid-stream: what it sent is a finished file without a face, and the exit code says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.chaos_proxy import ChaosProxy, Fault
from tests.harness.oracle import frames, visible
from tests.harness.rtspd import RtspServer
from tests.harness.sample import face_box


@pytest.mark.parametrize("kind", ["stall", "rst", "garbage", "close"])
def test_what_came_before_is_kept(
    kind: str, sample: Path, rtsp_sample: RtspServer, default_model: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.mp4"
    with ChaosProxy(rtsp_sample.port, [Fault(kind, 250_000)]) as proxy:  # type: ignore[arg-type]
        command = [
            sys.executable, "-m", "edge.cli.run", f"rtsp://127.0.0.1:{proxy.port}/sample", "-o", str(output), "-q",
            "--model", str(default_model), "--scales", "320", "--stall-timeout", "3", "--duration", "20",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 75
    assert done.stderr.count("\n") == 1
    assert f"what came before is in {output}" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == [output.name]
    assert sum(1 for _ in frames(output)) > 20
    assert visible(sample, output, face_box) == []


def test_motion_jpeg(default_model: Path, tmp_path: Path) -> None:
    """RTP carries JPEG with halved chroma only (RFC 2435, 4.1): another one makes the test's own server hang."""
    line = (
        "( videotestsrc is-live=1 ! video/x-raw,format=I420,width=320,height=240,framerate=25/1 ! jpegenc "
        "! rtpjpegpay name=pay0 pt=26 )"
    )
    output = tmp_path / "out.mp4"
    with RtspServer({"camera": line}) as server:
        command = [sys.executable, "-m", "edge.cli.run", server.url("camera"), "-o", str(output), "-q"]
        command += ["--model", str(default_model), "--scales", "320", "--duration", "2"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert sum(1 for _ in frames(output)) > 20
