"""What many masked frames of one face give away together: ``python -m tests.bench.fusion DATA``.

The worst case: the face keeps still and the same expression, the grid moves over it by up to SHIFT blocks, the attacker
knows exactly where the grid was in each frame, and adds only what codecs add (noise with a standard deviation of one
level). Every block of every frame is one linear equation; the smoothest face that fulfils them is computed and given to
the recogniser of `tests.bench.strength`. Columns are explained there. "exact": as if block means were not rounded.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from edge.anonymize.blocks import grid
from edge.anonymize.gate import Anonymizer
from edge.anonymize.masks import face_mask
from edge.settings import MaskSettings
from edge.types import Frame, Picture, Plane, Region
from tests.bench.strength import Photo, Recogniser, first_picks, load

Array = npt.NDArray[Any]

_MASK_PX, _MARGIN_PX = 64, 16
_SIDE_PX = _MASK_PX + 2 * _MARGIN_PX
_NOISE = 1.0
_CASES = ((6, 1, 0.0), (6, 25, 0.1), (6, 25, 0.5), (6, 100, 0.5), (4, 25, 0.5), (4, 100, 0.5))


def canonical(photo: Photo) -> tuple[Array, Array]:
    """The face, scaled so that its mask is `_MASK_PX` wide and high, and its landmarks: float (S, S, 3) and (5, 2)."""
    centre, half = (photo.box[:2] + photo.box[2:]) / 2, (photo.box[2:] - photo.box[:2]) / 2 * 1.3
    scale = _MASK_PX / 2 / half
    matrix = np.column_stack((np.diag(scale), _SIDE_PX / 2 - centre * scale))
    smooth = cv2.GaussianBlur(photo.image, (0, 0), float(half.max()) / _MASK_PX)
    image = cv2.warpAffine(smooth, matrix, (_SIDE_PX, _SIDE_PX), borderMode=cv2.BORDER_REPLICATE)
    return image.astype(np.float64), photo.landmarks @ matrix[:, :2].T + matrix[:, 2]


def observe(faces: Array, blocks: int, frames: int, shift: float, exact: bool) -> tuple[Array, Array, Array]:
    """Equations from masked frames: weights (K, S * S), values (K, N, 3), and what is masked in all, bool (S * S)."""
    random = np.random.default_rng(0)
    settings = MaskSettings(blocks=blocks)
    anonymizer = Anonymizer(settings)
    weights, values = [], []
    hidden = np.ones((_SIDE_PX, _SIDE_PX), bool)
    for _ in range(frames):
        x, y = _SIDE_PX / 2 + random.uniform(-shift, shift, 2) * _MASK_PX / blocks
        half = _MASK_PX / settings.mask_scale * random.uniform(0.95, 1.05) / 2
        region = Region((x - half, y - half, x + half, y + half), 1, "detected")
        seen = np.array([_masked(anonymizer, face, region) for face in faces])
        seen += random.normal(0, _NOISE, seen.shape)
        mask = face_mask(region.box, _picture(faces[0]), settings.mask_scale, settings.shape)
        assert mask is not None and mask.stencil is not None
        left, top, right, bottom = mask.visible
        stencil = np.zeros_like(hidden)
        stencil[top:bottom, left:right] = mask.stencil[: bottom - top, : right - left] != 0
        hidden &= stencil
        columns, rows = grid(mask, blocks, 1)
        for row in range(len(rows) - 1):
            for column in range(len(columns) - 1):
                block = np.zeros_like(hidden)
                (y1, y2), (x1, x2) = rows[row : row + 2], columns[column : column + 2]
                block[top + y1 : top + y2, left + x1 : left + x2] = True
                if (shown := block & stencil).any():
                    weights.append(block.ravel() / np.count_nonzero(block))
                    values.append((faces[:, block] if exact else seen[:, shown]).mean(axis=1))
                    if exact:
                        values[-1] = values[-1] + random.normal(0, _NOISE, values[-1].shape)
    return np.array(weights), np.array(values), hidden.ravel()


def _picture(face: Array) -> Picture:
    return Picture(_SIDE_PX, _SIDE_PX, "bgr", (Plane(np.rint(face).astype(np.uint8)),))


def _masked(anonymizer: Anonymizer, face: Array, region: Region) -> Array:
    picture = _picture(face)
    assert anonymizer.apply(Frame("bench", 0, 0, picture, 0, 0), [region]).redaction == "regions"
    return picture.planes[0].samples.astype(np.float64)


def reconstruct(faces: Array, weights: Array, values: Array, hidden: Array, smoothness: float) -> Array:
    """Least squares with a penalty on differences of neighbours; the pixels around the mask are known."""
    flat = faces.reshape(len(faces), -1, 3).transpose(1, 0, 2).reshape(_SIDE_PX**2, -1)
    laplacian = _laplacian()
    unknown, known = weights[:, hidden], ~hidden
    right = unknown.T @ (values.reshape(len(values), -1) - weights[:, known] @ flat[known])
    right -= smoothness * laplacian[np.ix_(hidden, known)] @ flat[known]
    left = unknown.T @ unknown + smoothness * laplacian[np.ix_(hidden, hidden)]
    flat[hidden] = np.linalg.solve(left, right)
    return flat.reshape(_SIDE_PX, _SIDE_PX, len(faces), 3).transpose(2, 0, 1, 3).clip(0, 255)


def _laplacian() -> Array:
    """Of the grid graph of all pixels, (S * S, S * S)."""
    one = np.diag([1.0, *[2.0] * (_SIDE_PX - 2), 1.0]) - np.eye(_SIDE_PX, k=1) - np.eye(_SIDE_PX, k=-1)
    return np.asarray(np.kron(one, np.eye(_SIDE_PX)) + np.kron(np.eye(_SIDE_PX), one))


def main() -> None:
    data = Path(sys.argv[1])
    photos = load(data)
    people = [photo.person for photo in photos]
    recognise = Recogniser(data / "models" / "embedding" / "mobileface_id_v2_256.onnx")
    pairs = [canonical(photo) for photo in photos]
    faces, landmarks = np.array([pair[0] for pair in pairs]), [pair[1] for pair in pairs]

    def embed(images: Array) -> Array:
        return np.array([recognise(image.astype(np.uint8), at) for image, at in zip(images, landmarks, strict=True)])

    clear = embed(faces)
    print(f"{'blocks frames shift':22}{'same photo':>12}{'other photo':>12}{'both masked':>12}")
    print(f"{'not masked':22}{'100':>12}{100 * first_picks(clear, clear, people, False):12.0f}")
    for (blocks, frames, shift), exact in product(_CASES, (False, True)):
        equations = observe(faces, blocks, frames, shift, exact)
        best = (0.0, 0.0, 0.0)
        for smoothness in (1e-2, 1e-3):
            fused = embed(reconstruct(faces, *equations, smoothness))
            shares = (
                first_picks(fused, clear, people, True),
                first_picks(fused, clear, people, False),
                first_picks(fused, fused, people, False),
            )
            best = max(best, shares, key=lambda each: each[1])
        name = f"{blocks:3} {frames:6} {shift:6}{' exact' if exact else ''}"
        print(f"{name:22}" + "".join(f"{100 * share:12.0f}" for share in best), flush=True)


if __name__ == "__main__":
    main()
