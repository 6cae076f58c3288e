"""Whether a face recogniser still knows a face: ``python -m tests.bench.reidentification DATA [--every 15]``.

For each method the embedding (MobileFace, 256 numbers) of a face is compared with that of the same face before it was
hidden, at the true places of eyes, nose and mouth. A face counts as matched above the similarity that one in a thousand
pairs of photos of different people reach. Photos: crops of LFW. Clips: every 15th frame of the real clips, faces as
YuNet finds them before they are hidden.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import av
import cv2
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from edge.anonymize.gate import Anonymizer
from edge.settings import MaskSettings
from edge.types import Frame, Picture, Plane, Region
from tests.bench.strength import Array, Recogniser, load

FALSE_ACCEPTS = 0.001
METHODS = {
    "pixelate, 12 blocks": MaskSettings(blocks=12), "pixelate, 6 blocks": MaskSettings(blocks=6),
    "pixelate, 4 blocks (default)": MaskSettings(), "pixelate, 2 blocks": MaskSettings(blocks=2),
    "blur, 4 blocks": MaskSettings(method="blur"), "solid": MaskSettings(method="solid"),
    "mannequin (swap)": MaskSettings(method="swap"),
}  # fmt: skip
SMALLEST_PX = 40            # faces of clips; a recogniser makes nothing of smaller ones


@dataclass(frozen=True)
class Face:
    """image: BGR. box: x1 y1 x2 y2. landmarks: (5, 2)."""

    image: Array
    box: Array
    landmarks: Array


def faces_of_clips(data: Path, every: int) -> Iterator[Face]:
    """Faces of every so many frames."""
    model = str(data / "models" / "detectors" / "yunet_2023mar.onnx")
    for clip in track(sorted((data / "videos" / "real").iterdir()), "clips"):
        with av.open(str(clip)) as container:
            for number, frame in enumerate(container.decode(video=0)):
                if number % every:
                    continue
                image = frame.to_ndarray(format="bgr24")
                finder = cv2.FaceDetectorYN.create(model, "", (image.shape[1], image.shape[0]), 0.8)
                _, found = finder.detect(image)
                for face in () if found is None else found:
                    if min(face[2], face[3]) >= SMALLEST_PX:
                        box = np.array((face[0], face[1], face[0] + face[2], face[1] + face[3]))
                        yield Face(image, box, face[4:14].reshape(5, 2))


def hidden(face: Face, settings: MaskSettings) -> Array:
    """A copy of the image without this face."""
    image = face.image.copy()
    picture = Picture(image.shape[1], image.shape[0], "bgr", (Plane(image),))
    x1, y1, x2, y2 = face.box.tolist()
    landmarks = tuple((x, y) for x, y in face.landmarks.tolist())
    region = Region((x1, y1, x2, y2), 1, "detected", landmarks)
    safe = Anonymizer(settings).apply(Frame("bench", 0, 0, picture, 0, 0), [region])
    assert safe.redaction == "regions"
    return image


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--every", type=int, default=15)
    arguments = parser.parse_args()
    photos = load(arguments.data)
    recognise = Recogniser(arguments.data / "models" / "embedding" / "mobileface_id_v2_256.onnx")
    clear = np.array([recognise(photo.image, photo.landmarks) for photo in photos])
    people = np.array([photo.person for photo in photos])
    impostors = (clear @ clear.T)[people[:, None] != people[None]]
    threshold = float(np.quantile(impostors, 1 - FALSE_ACCEPTS))
    sets = {"photos": [Face(photo.image, photo.box, photo.landmarks) for photo in photos],
            "clips": list(faces_of_clips(arguments.data, arguments.every))}  # fmt: skip
    table = Table("method", *(f"{name}, {what}" for name in sets for what in ("matched", "mean similarity")),
                  title=f"threshold {threshold:.3f}: one in a thousand of {len(impostors) // 2} pairs; "
                        + ", ".join(f"{len(faces)} faces in {name}" for name, faces in sets.items()))  # fmt: skip
    for name, settings in METHODS.items():
        cells = []
        for faces in sets.values():
            likeness = np.array([
                recognise(face.image, face.landmarks) @ recognise(hidden(face, settings), face.landmarks)
                for face in track(faces, name, transient=True)
            ])  # fmt: skip
            cells += [f"{(likeness >= threshold).mean():.1%}", f"{likeness.mean():.2f}"]
        table.add_row(name, *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
