"""The RTSP server behaves as a camera: plays for ever in real time, asks for a password, can hang and come back."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from urllib.parse import quote

import av
import pytest

from tests.harness import sample as clip
from tests.harness.rtspd import Authentication, RtspServer

PICTURE = "video/x-raw,width=64,height=48,framerate=25/1"
BALL = f"( videotestsrc is-live=1 ! {PICTURE} ! x264enc tune=4 ! rtph264pay name=pay0 )"


def play(url: str, frames: int, timeout_s: float = 10.0) -> tuple[list[float], tuple[int, int]]:
    """Presentation times of the first `frames` frames, and the size of the picture."""
    times = []
    with av.open(url, options={"rtsp_transport": "tcp"}, timeout=timeout_s) as container:
        stream = container.streams.video[0]
        for frame in container.decode(stream):
            times.append(float(frame.time or 0))
            if len(times) == frames:
                break
        return times, (stream.width, stream.height)


def test_plays_a_file_in_real_time_and_in_order(sample: Path) -> None:
    with RtspServer({"sample": sample}) as server:
        started_s = time.monotonic()
        times, size = play(server.url("sample"), 50)
        took_s = time.monotonic() - started_s
    assert size == (clip.WIDTH_PX, clip.HEIGHT_PX)
    assert times == sorted(times)
    assert took_s > 50 / clip.FPS / 2               # not as fast as it can be read


@pytest.mark.slow
def test_begins_again_after_the_last_frame_without_a_jump(sample: Path) -> None:
    frames = clip.FPS * (clip.DURATION_S + 1)
    with RtspServer({"sample": sample}) as server:
        times, _ = play(server.url("sample"), frames)
    steps = [after - before for before, after in itertools.pairwise(times)]
    assert max(steps) < 2.5 / clip.FPS
    assert min(steps) > 0


def test_launch_line_and_two_clients_of_one_mount() -> None:
    with RtspServer({"ball": BALL}, shared=True) as server:
        for _ in range(2):
            assert play(server.url("ball"), 3)[1] == (64, 48)


@pytest.mark.parametrize("method", ["basic", "digest"])
def test_wants_the_password(method: Authentication, password: str) -> None:
    with RtspServer({"ball": BALL}, user="viewer", password=password, authentication=method) as server:
        with pytest.raises(av.error.HTTPUnauthorizedError):
            play(server.url("ball"), 1)
        right = server.url("ball").replace("//", f"//viewer:{quote(password, safe='')}@")
        assert play(right, 1)[1] == (64, 48)
        assert password.encode() not in Path(f"/proc/{server.pid}/cmdline").read_bytes()


def test_hangs_on_demand_and_comes_back_on_the_same_port() -> None:
    with RtspServer({"ball": BALL}) as server:
        port = server.port
        server.freeze()
        with pytest.raises(av.error.FFmpegError):
            play(server.url("ball"), 1, timeout_s=1.0)
        server.thaw()
        assert play(server.url("ball"), 1)
        server.stop()
        with pytest.raises(av.error.FFmpegError):
            play(server.url("ball"), 1, timeout_s=1.0)
        server.start()
        assert server.port == port
        assert play(server.url("ball"), 1)


def test_a_bad_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "not-a-video.mp4"
    path.write_text("nothing")
    with pytest.raises(RuntimeError, match=r"not-a-video\.mp4 has no H\.264 or H\.265 video"), RtspServer({"x": path}):
        pass
