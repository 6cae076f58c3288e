"""Every frame of a file arrives once, in order, writable; what cannot be read is one line with the right exit code."""

from __future__ import annotations

import os
import struct
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from edge.errors import EdgeError, InputError, RetryLater
from edge.settings import SourceSettings
from edge.types import Frame
from edge.video.inputs import parse_spec
from edge.video.source import open_source
from tests.harness.rtspd import RtspServer
from tests.unit.video.clips import H264, frames_of, make_clip, read_all, simple_clip


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simple_clip(tmp_path_factory.mktemp("clips") / "ball.mp4")


def test_what_is_known_about_a_file(clip: Path) -> None:
    source = open_source(str(clip), SourceSettings())
    source.close()
    info = source.info
    assert (info.name, info.live, info.width_px, info.height_px) == (str(clip), False, 160, 120)
    assert (info.frame_rate, info.duration_s, info.frames, info.codec) == (Fraction(30), pytest.approx(1), 30, "h264")
    assert (info.rotation_deg, info.has_audio) == (0, False)


def test_frames_come_once_in_order_and_can_be_written(clip: Path) -> None:
    source = open_source(str(clip), SourceSettings())
    frames = list(frames_of(source))                     # all held at once: more than any pool of a decoder
    source.close()
    assert [frame.index for frame in frames] == list(range(30))
    assert [round(frame.pts_ns * 30 / 1e9) for frame in frames] == list(range(30))
    assert not any(frame.damaged for frame in frames)
    for number, frame in enumerate(frames):
        assert all(plane.samples.flags.writeable for plane in frame.picture.planes)
        frame.picture.planes[0].samples[:] = number
    assert [int(frame.picture.planes[0].samples.mean()) for frame in frames] == list(range(30))   # no shared memory
    for frame in frames:
        frame.release()
        frame.release()
    assert source.ended
    assert source.ended_early is None
    assert source.complete
    assert source.read(1) is None


def test_writing_into_frames_does_not_reach_later_ones(clip: Path) -> None:
    def brightness(spoil: bool) -> list[float]:
        source, found = open_source(str(clip), SourceSettings()), []
        for frame in frames_of(source):
            found.append(float(frame.picture.planes[0].samples.mean()))
            if spoil:
                frame.picture.planes[0].samples[:] = 255
            frame.release()
        source.close()
        return found

    assert brightness(spoil=True) == brightness(spoil=False)


@pytest.mark.parametrize(
    "mux", ["matroskamux", "avimux", "mpegtsmux", "qtmux", "flvmux", "mp4mux fragment-duration=200"]
)
def test_containers(tmp_path: Path, mux: str) -> None:
    frames = read_all(simple_clip(tmp_path / "clip", frames=20, mux=mux))
    assert len(frames) == 20
    assert frames[-1][1] - frames[0][1] == pytest.approx(19e9 / 30, abs=3e6)


def test_a_raw_stream(tmp_path: Path) -> None:
    raw = "video/x-h264,stream-format=byte-stream,alignment=au"
    assert len(read_all(simple_clip(tmp_path / "clip.h264", frames=20, mux=raw))) == 20


def test_a_duration_limit(clip: Path) -> None:
    assert len(read_all(clip, SourceSettings(duration_s=0.5))) == 15


def test_a_file_that_breaks_off_gives_its_good_frames_and_says_so(tmp_path: Path) -> None:
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(simple_clip(tmp_path / "clip.mp4", frames=60, mux="mp4mux faststart=true").read_bytes()[:-3000])
    source = open_source(str(cut), SourceSettings())
    count = 0
    for frame in frames_of(source):
        count += 1
        frame.release()
    source.close()
    assert 20 < count < 60
    assert source.ended_early
    assert not source.complete


@pytest.mark.parametrize(("name", "content", "message"), [
    ("empty.mp4", b"", "empty file"),
    ("text.mp4", b"this is no video", "not a video"),
    ("noise.mp4", bytes(np.random.default_rng(1).integers(0, 256, 20_000, np.uint8)), "noise.mp4"),
    ("zeros.ts", bytes(100_000), "zeros.ts"),
    ("head.mp4", b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + b"\0\0\x10\0mdat" + bytes(4088), "head.mp4"),
    ("sound.wav", b"RIFF\x24\x10\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0"
     b"data\0\x10\0\0" + bytes(4096), "holds no video"),
    ("cut.gif", b"GIF89a\1\0", "no whole picture"),
])  # fmt: skip
def test_what_is_no_video_is_refused_in_one_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    began_s = time.monotonic()
    with pytest.raises(InputError, match=message) as caught:
        open_source(str(path), SourceSettings())
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - began_s < 10


@pytest.mark.parametrize(
    "spec", ["none.mp4", "/dev/null", "/", "http://127.0.0.1/a.mp4", "rtsp://", "rtsp://[", "/dev/video77"]
)
def test_what_is_not_there_is_an_input_error(spec: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_spec(spec)
    assert caught.value.exit_code == 66


def test_credentials_never_reach_a_name(password: str) -> None:
    opened = parse_spec("rtsp://me:correct%2Fhorse%40battery%3Astaple@camera.example:554/live?token=secret")
    assert (opened.user, opened.password) == ("me", password)
    assert opened.name == "rtsp://camera.example:554/live"
    assert opened.location == "rtsp://camera.example:554/live?token=secret"
    assert password not in repr(opened)


def test_a_change_of_size_starts_an_epoch(shared_data: Path) -> None:
    source = open_source(str(shared_data / "videos/awkward/resolution_change.ts"), SourceSettings())
    sizes: dict[int, tuple[int, int]] = {}
    counts: dict[int, int] = {}
    for frame in frames_of(source):
        sizes[frame.epoch] = (frame.picture.width_px, frame.picture.height_px)
        counts[frame.epoch] = counts.get(frame.epoch, 0) + 1
        frame.release()
    source.close()
    assert sizes == {0: (480, 360), 1: (320, 240)}
    assert counts == {0: 36, 1: 36}


def test_concealed_errors_are_damage(shared_data: Path) -> None:
    source = open_source(str(shared_data / "videos/awkward/bitflips.mp4"), SourceSettings())
    damaged = []
    for frame in frames_of(source):
        damaged.append(frame.damaged)
        frame.release()
    source.close()
    assert 0 < damaged.index(True) < 30
    assert all(damaged[damaged.index(True):])            # one key frame only, at the start


@pytest.mark.parametrize(("matrix", "degrees"), [((0, 1, -1, 0), 90), ((-1, 0, 0, -1), 180), ((0, -1, 1, 0), 270)])
def test_rotation_is_applied(tmp_path: Path, matrix: tuple[int, int, int, int], degrees: int) -> None:
    path = make_clip(tmp_path / "turned.mp4", "videotestsrc pattern=black num-buffers=5 ! "
                     "video/x-raw,format=I420,width=144,height=120,framerate=30/1 ! "
                     f"videobox left=-16 fill=white ! video/x-raw,width=160 ! {H264} ! mp4mux")  # fmt: skip
    a, b, c, d = (value * 0x10000 for value in matrix)
    content = bytearray(path.read_bytes())
    struct.pack_into(">9i", content, content.index(b"tkhd") + 44, a, b, 0, c, d, 0, 0, 0, 0x40000000)
    path.write_bytes(content)
    source = open_source(str(path), SourceSettings())
    frame = next(frames_of(source))
    source.close()
    luma = frame.picture.planes[0].samples.astype(int)
    assert source.info.rotation_deg == degrees
    assert luma.shape == ((120, 160) if degrees == 180 else (160, 120))
    white = {90: luma[:12], 180: luma[:, -12:], 270: luma[-12:]}[degrees]      # the left edge of what was coded
    assert white.mean() > 200
    assert luma.mean() < 60
    frame.release()


def test_a_live_stream_stalls_within_its_limit(clip: Path) -> None:
    with RtspServer({"clip": clip}) as server:
        source = open_source(server.url("clip"), SourceSettings(stall_timeout_s=1.0))
        assert source.info.live
        first = source.read(5.0)
        assert isinstance(first, Frame)
        first.release()
        server.freeze()
        began_s = time.monotonic()
        with pytest.raises(RetryLater, match="no picture for 1 s"):
            for frame in frames_of(source):
                frame.release()
        assert time.monotonic() - began_s < 4
        began_s = time.monotonic()
        source.close()
        assert time.monotonic() - began_s < 5.5
        server.thaw()


def test_a_camera_that_is_away_and_one_that_refuses(clip: Path, password: str) -> None:
    with RtspServer({"clip": clip}, user="me", password=password) as server:
        with pytest.raises(InputError, match="access refused"):
            open_source(server.url("clip"), SourceSettings())
        with pytest.raises(InputError, match="access refused") as caught:
            open_source(server.url("clip"), SourceSettings(), user="me", password="wrong")
        assert "wrong" not in str(caught.value)
        source = open_source(server.url("clip"), SourceSettings(), user="me", password=password)
        source.close()
        address = server.url("clip")
    with pytest.raises(RetryLater) as away:
        open_source(address, SourceSettings())
    assert away.value.exit_code == 75


def test_an_unreadable_file(clip: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read anything")
    path = tmp_path / "closed.mp4"
    path.write_bytes(clip.read_bytes())
    path.chmod(0)
    with pytest.raises(EdgeError, match="ermission denied"):
        open_source(str(path), SourceSettings())
