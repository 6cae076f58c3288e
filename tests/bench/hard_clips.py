"""Derive clips with known faces that are harder than the labelled ones.

    python -m tests.bench.hard_clips OUT_DIR [--data ../shared/data]

Kinds: small, fast, turned, dark, hidden, border, lost. Composites put labelled portraits on scenes without faces, so
that the truth is known exactly; dark, hidden and lost also alter real clips, whose labels then still hold. Everything
follows from fixed seeds. Each clip gets a label file next to it, in the format that leakcheck.py reads.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
Boxes = list[tuple[int, list[float]]]
"""Track number and x, y, width, height in pixels, per face."""
Shot = tuple[Image, Boxes]

FPS = 30
SIZE = (960, 540)
HEAD = 1.55
"""Cut-outs reach this far around the face box, so that hair and neck come along as detectors expect them."""
REAL_FRAMES = 90


@dataclass(frozen=True, eq=False)
class Portrait:
    """A photo with one labelled face. box: x, y, width, height in pixels of the photo."""

    photo: Image
    box: tuple[float, float, float, float]

    @lru_cache(maxsize=64)       # noqa: B019 - a handful of portraits per run
    def _shrunk(self, factor: float) -> Image:
        return np.asarray(cv2.resize(self.photo, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA), np.uint8)

    def paste(self, canvas: Image, x: float, y: float, width_px: float, roll_deg: float = 0.0,
              squeeze: float = 1.0) -> list[float]:
        """Blend the head into the canvas with its face centred at (x, y); return the upright box of the face.

        squeeze narrows it, as a head that turns aside; roll_deg turns it in the picture plane, clockwise.
        """
        bx, by, bw, bh = self.box
        scale = width_px / bw
        small = self._shrunk(min(1.0, 1.2 * scale))
        shrink = small.shape[1] / self.photo.shape[1]
        cx, cy, w, h = (v * shrink for v in (bx + bw / 2, by + bh / 2, bw, bh))
        alpha: npt.NDArray[Any] = np.zeros(small.shape[:2], np.float32)
        cv2.ellipse(alpha, (round(cx), round(cy)), (round(HEAD * w / 2), round(HEAD * h / 2)), 0, 0, 360, 1.0, -1)
        alpha = np.asarray(cv2.GaussianBlur(alpha, (0, 0), 0.06 * w))
        angle = np.deg2rad(roll_deg)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        linear = turn @ np.diag([squeeze, 1.0]) * (scale / shrink)
        matrix = np.column_stack([linear, np.array([x, y]) - linear @ np.array([cx, cy])])
        size = canvas.shape[1], canvas.shape[0]
        head = cv2.warpAffine(small, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        weight = cv2.warpAffine(alpha, matrix, size)[..., None]
        canvas[:] = (canvas * (1 - weight) + head * weight + 0.5).astype(np.uint8)
        half_w, half_h = squeeze * bw * scale / 2, bh * scale / 2
        reach_x = np.hypot(np.cos(angle) * half_w, np.sin(angle) * half_h)     # of an ellipse turned by the angle
        reach_y = np.hypot(np.sin(angle) * half_w, np.cos(angle) * half_h)
        return [x - reach_x, y - reach_y, 2 * reach_x, 2 * reach_y]


class Material:
    """Portraits, scenes and real clips below a data directory."""

    def __init__(self, data: Path) -> None:
        self.data = data
        labels = json.loads((data / "photos/labels_eval_consensus.json").read_text())
        self.labels = [entry for entry in labels
                       if len(entry["boxes"]) == 1 and not entry["ignore"] and min(entry["boxes"][0][2:]) > 150]
        self.scenes = sorted((data / "photos/negatives").glob("*.jpg"))

    def portrait(self, number: int) -> Portrait:
        entry = self.labels[number % len(self.labels)]
        photo = cv2.imread(str(self.data / entry["file"]))
        return Portrait(np.asarray(photo, np.uint8), tuple(entry["boxes"][0]))

    def scene(self, number: int, size: tuple[int, int] = SIZE) -> Image:
        image = np.asarray(cv2.imread(str(self.scenes[number % len(self.scenes)])), np.uint8)
        return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)

    def real(self, name: str) -> Iterator[Shot]:
        """Frames of a labelled real clip with the labels nearest in time."""
        labels = json.loads((self.data / f"videos/labels/{name}.json").read_text())
        times = np.array([frame["t"] for frame in labels["frames"]])
        with av.open(str(self.data / "videos/real" / labels["clip"])) as container:
            for n, frame in enumerate(container.decode(video=0)):
                if n >= REAL_FRAMES:
                    return
                entry = labels["frames"][int(np.argmin(np.abs(times - n / labels["fps"])))]
                yield frame.to_ndarray(format="bgr24"), [(face["track"], face["box"]) for face in entry["faces"]]


def small(stuff: Material, seed: int) -> Iterator[Shot]:
    """Eight faces of 12 to 24 px, walking slowly across a 1280x720 scene."""
    rng = np.random.default_rng(seed)
    scene, people = stuff.scene(seed, (1280, 720)), [stuff.portrait(8 * seed + k) for k in range(8)]
    start = np.column_stack([np.linspace(100, 1180, 8), rng.uniform(80, 640, 8)])
    speed, widths = rng.uniform(-1.2, 1.2, (8, 2)), np.linspace(12.5, 24, 8)
    for n in range(75):
        canvas = scene.copy()
        places = start + speed * n
        yield canvas, [(k + 1, person.paste(canvas, float(places[k, 0]), float(places[k, 1]), float(widths[k])))
                       for k, person in enumerate(people)]


def fast(stuff: Material, seed: int, widths_per_frame: float) -> Iterator[Shot]:
    """One face of 56 px that darts across the picture, pauses, and darts back."""
    scene, person = stuff.scene(seed), stuff.portrait(seed)
    x, step = 60.0, 56 * widths_per_frame
    pause = 0
    for n in range(90):
        canvas = scene.copy()
        yield canvas, [(1, person.paste(canvas, x, 270 + 90 * np.sin(n / 9), 56))]
        if pause:
            pause -= 1
        elif not 60 <= x + step <= SIZE[0] - 60:
            step, pause = -step, 8
        else:
            x += step


def turned(stuff: Material, seed: int, roll: bool) -> Iterator[Shot]:
    """A face that turns away (narrows to a third) or tips over by 150 degrees for most of a second, and comes back."""
    scene, person = stuff.scene(seed), stuff.portrait(seed)
    for n in range(100):
        canvas, turn = scene.copy(), float(np.interp(n, [25, 40, 55, 70], [0, 1, 1, 0]))
        yield canvas, [(1, person.paste(canvas, 400 + 1.5 * n, 260, 90, 150 * turn if roll else 0,
                                        1 if roll else 1 - 0.67 * turn))]


def border(stuff: Material, seed: int) -> Iterator[Shot]:
    """A face that enters from the left and leaves below; it counts while at least half of it is in the picture."""
    scene, person = stuff.scene(seed), stuff.portrait(seed)
    for n in range(90):
        canvas = scene.copy()
        x, y = np.interp(n, [10, 35, 55, 80], [-90, 300, 500, 520]), np.interp(n, [35, 55, 80], [220, 300, 640])
        left, top, w, h = person.paste(canvas, float(x), float(y), 100)
        right, bottom = min(left + w, SIZE[0]), min(top + h, SIZE[1])
        left, top = max(left, 0.0), max(top, 0.0)
        inside = max(right - left, 0) * max(bottom - top, 0) / (w * h)
        yield canvas, [(1, [left, top, right - left, bottom - top])] if inside >= 0.5 else []


def dark(stuff: Material, name: str, gain: float, seed: int) -> Iterator[Shot]:
    """A real clip under-exposed, with sensor noise."""
    rng = np.random.default_rng(seed)
    for image, boxes in stuff.real(name):
        noisy = image.astype(np.float32) * gain + rng.normal(0, 2.5, image.shape)
        yield np.clip(noisy, 0, 255).astype(np.uint8), boxes


def hidden(stuff: Material, name: str, seed: int) -> Iterator[Shot]:
    """A real clip in which a skin-coloured bar wipes over each face, up to half of it, every two seconds."""
    rng = np.random.default_rng(seed)
    texture = rng.normal(0, 6, (1, 1, 3)) + np.array([96, 120, 178])
    for n, (original, boxes) in enumerate(stuff.real(name)):
        image = original.copy()
        share = 0.5 * (0.5 - 0.5 * np.cos(2 * np.pi * n / 60))
        for _, (x, y, w, h) in boxes:
            top = y + h * (1 - share) if seed % 2 else y - 0.2 * h
            bottom = y + 1.2 * h if seed % 2 else y + h * share
            image[max(0, int(top)):max(0, int(bottom)), max(0, int(x - 0.3 * w)):max(0, int(x + 1.3 * w))] = texture
        yield image, boxes


def _negative(face: Image) -> Image:
    return np.asarray(255 - face, np.uint8)


def _flatten(face: Image) -> Image:
    mean = face.mean(axis=(0, 1), keepdims=True)
    return np.asarray(mean + 0.12 * (face - mean), np.uint8)


def _topple(face: Image) -> Image:
    length = max(3, face.shape[1] // 6)
    return np.asarray(cv2.blur(face[::-1], (1, length)), np.uint8)


LOSSES: dict[str, Callable[[Image], Image]] = {"negative": _negative, "flatten": _flatten, "topple": _topple}


def lost(shots: Iterator[Shot], how: str) -> Iterator[Shot]:
    """Faces that detectors find poorly though people do, for 1, 2, 3, 5, 7 and 10 frames, with pauses between.

    how: as a negative, nearly without contrast, or upside down and smeared.
    """
    gone = {n for start, length in ((8, 1), (15, 2), (24, 3), (34, 5), (48, 7), (64, 10))
            for n in range(start, start + length)}
    for n, (original, boxes) in enumerate(shots):
        image = original.copy()
        for _, (x, y, w, h) in boxes if n in gone else []:
            rows = slice(max(0, int(y - 0.15 * h)), max(0, int(y + 1.15 * h)))
            columns = slice(max(0, int(x - 0.15 * w)), max(0, int(x + 1.15 * w)))
            image[rows, columns] = LOSSES[how](image[rows, columns])
        yield image, boxes


def recipes(stuff: Material) -> dict[str, Callable[[], Iterator[Shot]]]:
    """All clips by name; the part before the first underscore is the kind."""
    plan: dict[str, Callable[[], Iterator[Shot]]] = {}
    for seed in (0, 1):
        plan[f"small_{seed}"] = partial(small, stuff, seed)
        plan[f"border_{seed}"] = partial(border, stuff, 20 + seed)
        for way in ("yaw", "roll"):
            plan[f"turned_{way}_{seed}"] = partial(turned, stuff, 12 + seed, way == "roll")
    for k, speed in enumerate((0.25, 0.5, 0.8, 1.2)):
        plan[f"fast_{speed}"] = partial(fast, stuff, 3 + k, speed)
    for k, (name, gain) in enumerate((("signer_01", 0.3), ("portrait_01", 0.15), ("signer_02", 0.15),
                                      ("walking_faces_01", 0.25))):
        plan[f"dark_{name}"] = partial(dark, stuff, name, gain, k)
    for k, name in enumerate(("signer_03", "single_face_01", "classroom_01")):
        plan[f"hidden_{name}"] = partial(hidden, stuff, name, k)
    for how in LOSSES:
        plan[f"lost_{how}_real"] = partial(_lost_real, stuff, "signer_03", how)
        plan[f"lost_{how}_moving"] = partial(_lost_moving, stuff, 32, how)
    return plan


def _lost_real(stuff: Material, name: str, how: str) -> Iterator[Shot]:
    return lost(stuff.real(name), how)


def _lost_moving(stuff: Material, seed: int, how: str) -> Iterator[Shot]:
    return lost(fast(stuff, seed, 0.1), how)


def write(path: Path, shots: Iterator[Shot]) -> None:
    """Encode a clip nearly losslessly, and its labels next to it as .json."""
    frames: list[dict[str, Any]] = []
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", FPS, options={"crf": "12", "preset": "veryfast"})
        stream.pix_fmt, stream.time_base = "yuv420p", Fraction(1, FPS)
        for n, (image, boxes) in enumerate(shots):
            height, width = image.shape[0] // 2 * 2, image.shape[1] // 2 * 2
            if n == 0:
                stream.width, stream.height = width, height
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image[:height, :width]), format="bgr24")
            frame.pts, frame.time_base = n, Fraction(1, FPS)
            container.mux(stream.encode(frame))
            faces = [{"track": track, "box": [round(float(v), 1) for v in box]} for track, box in boxes]
            frames.append({"t": round(n / FPS, 4), "faces": faces, "ignore": []})
        container.mux(stream.encode(None))
    labels = {"clip": path.name, "width": width, "height": height, "fps": FPS, "label_step": 1, "frames": frames}
    path.with_suffix(".json").write_text(json.dumps(labels))


def make(out: Path, data: Path) -> list[Path]:
    """Write what is not there yet; return the clips, sorted."""
    out.mkdir(parents=True, exist_ok=True)
    clips = []
    for name, shots in sorted(recipes(Material(data)).items()):
        clip = out / f"{name}.mp4"
        if not clip.with_suffix(".json").exists():
            write(clip, shots())
        clips.append(clip)
    return clips


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("out", type=Path, help="scratch directory for clips and labels")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[3] / "shared/data")
    arguments = parser.parse_args(argv)
    for clip in make(arguments.out, arguments.data):
        print(clip)
    return 0


if __name__ == "__main__":
    sys.exit(main())
