"""Every broken and unusual file: right output, or one line and the right exit code; no hang, no half a file (P3)."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import pytest

from edge.errors import InputError
from edge.settings import SourceSettings
from edge.video.source import open_source

RUN_TIMEOUT_S = 600


@dataclass(frozen=True)
class Expected:
    """What a file's output holds. sizes: one for each segment. aspect: of a pixel. damaged: some frames are."""

    frames: int
    duration_s: float
    sizes: tuple[tuple[int, int], ...]
    aspect: Fraction = Fraction(1)
    full_range: bool = False
    damaged: bool = False
    matrix: str = ""

    @property
    def tolerance_s(self) -> float:
        """One frame, and what containers round."""
        return self.duration_s / self.frames + 0.001


def good(frames: int, duration_s: float, *sizes: tuple[int, int], **more: object) -> Expected:
    return Expected(frames, duration_s, sizes or ((480, 360),), **more)  # type: ignore[arg-type]


# fmt: off
AWKWARD: dict[str, Expected | str] = {
    "alpha_found.webm": good(150, 5, (200, 200)),
    "anamorphic_sar20_11.mp4": good(109, 3.634, (352, 480), aspect=Fraction(20, 11)),
    "av1_video_found.mkv": good(125, 5, (640, 360), matrix="bt709"),
    "bframes_aac.mp4": good(109, 3.634),
    "bitflips.mp4": good(89, 3, damaged=True),                      # one of 90 pictures cannot be decoded at all
    "bt709_full_range_found.mp4": good(30, 1, (1280, 720), full_range=True, matrix="bt709"),
    "corrupted_found.mp4": good(49, 5, (1280, 720), damaged=True),
    "empty.mp4": "empty file",
    "fps_1.mp4": good(4, 4),
    "fps_120.mp4": good(240, 2),
    "full_range.mp4": good(109, 3.634, full_range=True),
    "gray.mp4": good(60, 2, full_range=True),
    "h264_high422_10bit.mp4": good(60, 2),
    "h265_10bits_found.mp4": good(30, 1, (200, 200)),
    "h265_video_found.mp4": good(10, 1, (128, 128)),
    "hevc.mp4": good(109, 3.634),
    "hevc_10bit_hdr10.mp4": good(60, 2, matrix="bt2020"),
    "interlaced_tff_h264.mp4": good(54, 3.6, (480, 480)),
    "long_46s.mp4": good(1332, 44.4),
    "lowlight_noise.mp4": good(60, 2, (640, 480)),
    "mjpeg_422.avi": good(60, 2, full_range=True),
    "odd_319x239_mjpeg.avi": good(109, 3.634, (320, 240), full_range=True),
    "odd_321x241_vp9.webm": good(109, 3.634, (322, 242)),
    "odd_481x361_h264_444.mp4": good(109, 3.634, (482, 362)),
    "one_frame.mp4": good(1, 0.034),
    "resolution_change.ts": good(72, 2.4, (480, 360), (320, 240)),
    "rot180_found.mov": good(3, 0.1, (568, 320), matrix="bt709"),
    "rot270_found.mov": good(3, 0.1, (320, 568), matrix="bt709"),
    "rot90_meta.mp4": good(109, 3.634),
    "start_pts_10s.ts": good(60, 2),
    "start_time_offset.mkv": good(59, 1.967),
    "starts_mid_gop.ts": "cannot be read",                          # no parameter sets in it: nobody can
    "text_named.mp4": "not a video",
    "truncated_no_moov.mp4": "is it a video, and complete",
    "two_video_streams.mkv": good(45, 1.523),
    "very_lowbitrate.mp4": good(90, 3),
    "vfr.mp4": good(79, 3.634),
    "vfr_jitter.mkv": good(109, 3.646),
    "xvid_bframes.avi": good(60, 2),
}
REAL: dict[str, Expected | str] = {
    "carphone_01.mp4": good(120, 4.004, (176, 144), aspect=Fraction(128, 117)),
    "classroom_01.gif": good(45, 2.99, (480, 270)),
    "crowd_square_01.h264": good(127, 5.08, (960, 366)),
    "ego_street_01.mp4": good(600, 20, (608, 1080)),
    "face_enters_01.mov": good(169, 6.379, (960, 540), matrix="bt709"),
    "headpose_01.gif": good(23, 1.91, (480, 270)),
    "nasa_01.mp4": good(390, 13.013, (480, 270), matrix="bt709"),   # the larger of two video streams
    "no_face_01.mp4": good(96, 3.945, (960, 540)),
    "people_01.gif": good(23, 1.91, (480, 270)),
    "portrait_01.mp4": good(472, 19.685, (640, 360)),
    "single_face_01.mp4": good(72, 2.4, (640, 360)),
    "walking_faces_01.gif": good(35, 2.91, (480, 270)),
}
# fmt: on
SIGNERS = {"signer_01.mkv", "signer_02.mkv", "signer_03.mkv", "signer_04.mkv", "signer_05.mkv", "signer_06.mkv",
           "signer_07.mkv", "signer_08.mkv", "signer_09.mkv", "signer_10.mkv"}  # fmt: skip
MATRICES = {1: "bt709", 5: "bt601", 6: "bt601", 9: "bt2020"}     # ITU-T H.273 matrix coefficients


def test_the_table_is_complete(shared_data: Path) -> None:
    assert {path.name for path in (shared_data / "videos/awkward").iterdir()} == set(AWKWARD)
    assert {path.name for path in (shared_data / "videos/real").iterdir()} == set(REAL) | SIGNERS


@pytest.mark.parametrize("name", sorted(AWKWARD))
def test_reading(shared_data: Path, name: str) -> None:
    """Each file on its own, without detection."""
    expected, path = AWKWARD[name], shared_data / "videos/awkward" / name
    began_s = time.monotonic()
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected) as caught:
            open_source(str(path), SourceSettings())
        assert "\n" not in str(caught.value)
        assert time.monotonic() - began_s < 10
        return
    source = open_source(str(path), SourceSettings())
    seen: list[tuple[int, int, int, bool]] = []
    times: list[int] = []
    end_ns = 0
    while not source.ended:
        frame = source.read(5.0)
        if frame is None:
            continue
        seen.append((frame.epoch, frame.picture.width_px, frame.picture.height_px, frame.damaged))
        times.append(frame.pts_ns)
        end_ns = frame.pts_ns + frame.duration_ns
        assert (frame.picture.pixel_aspect, frame.picture.full_range) == (expected.aspect, expected.full_range)
        frame.release()
    source.close()
    assert len(seen) == expected.frames
    assert times == sorted(set(times))
    assert (end_ns - times[0]) / 1e9 == pytest.approx(expected.duration_s, abs=expected.tolerance_s)
    assert tuple(dict.fromkeys((width, height) for _, width, height, _ in seen)) == expected.sizes
    assert any(damaged for *_, damaged in seen) is expected.damaged
    assert source.ended_early is None


def run(folder: Path, output: Path, model: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edge.cli.run", str(folder), "-o", str(output), "--model", str(model), "--quiet"]
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)


def check_outputs(table: dict[str, Expected | str], output: Path, complaints: str) -> None:
    written = {path.name for path in output.iterdir()}
    assert all(name.endswith(".mp4") for name in written), written
    for name, expected in table.items():
        stem = name.partition(".")[0]
        if isinstance(expected, str):
            assert f"{stem}.mp4" not in written
            assert sum(name in line and expected in line for line in complaints.splitlines()) >= 1, name
            continue
        frames, duration_s = 0, Fraction(0)
        for number, size in enumerate(expected.sizes, 1):
            part = output / (f"{stem}.mp4" if number == 1 else f"{stem}_{number:03d}.mp4")
            with av.open(str(part)) as container:
                stream = container.streams.video[0]
                context = stream.codec_context
                assert (context.width, context.height) == size, name
                assert (stream.sample_aspect_ratio or 1) == expected.aspect, name
                assert (context.color_range == 2) is expected.full_range, name
                assert not expected.matrix or MATRICES[context.colorspace] == expected.matrix, name
                assert not container.streams.audio, name
                assert stream.duration is not None
                duration_s += stream.duration * stream.time_base
                frames += sum(1 for _ in container.decode(stream))
        assert frames == expected.frames, name
        assert float(duration_s) == pytest.approx(expected.duration_s, abs=expected.tolerance_s), name


@pytest.mark.timeout(RUN_TIMEOUT_S)
def test_a_folder_of_awkward_files(shared_data: Path, default_model: Path, tmp_path: Path) -> None:
    done = run(shared_data / "videos/awkward", tmp_path / "out", default_model)
    assert done.returncode == 1                                     # some files failed, the others are done
    assert "Traceback" not in done.stderr
    check_outputs(AWKWARD, tmp_path / "out", done.stderr)


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S)
def test_a_folder_of_real_clips(shared_data: Path, default_model: Path, tmp_path: Path) -> None:
    done = run(shared_data / "videos/real", tmp_path / "out", default_model)
    assert done.returncode == 0, done.stderr
    check_outputs(REAL, tmp_path / "out", done.stderr)
    assert {f"{Path(name).stem}.mp4" for name in SIGNERS} <= {path.name for path in (tmp_path / "out").iterdir()}
