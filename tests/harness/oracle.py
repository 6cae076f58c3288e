"""Says which faces are still visible in an output. It knows where they are, and never asks the product.

The face part of each output frame is compared with the same place in the original: both are brought to one small
size, band-pass filtered (features of a face, neither light nor codec noise) and correlated. An unmasked face gives
close to 1 whatever the codec did; a mosaic, a blur or a filled ellipse far less. `tests/faults/test_oracle.py` holds
both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import av
import cv2
import numpy as np
import numpy.typing as npt

from edge.types import UInt8

PATCH_PX = 48
VISIBLE = 0.6
CENTRAL = 0.7       # of the box: eyes, nose and mouth, without hair and background
MIN_PX = 12

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Sight:
    """One face in one frame of the output. similarity: -1 to 1."""

    time_s: float
    box: Box
    similarity: float

    @property
    def visible(self) -> bool:
        """Whether a person would recognise the face."""
        return self.similarity >= VISIBLE


def frames(path: Path) -> Iterator[tuple[float, UInt8]]:
    """(seconds since the first frame, luma uint8 (H, W)) of every frame that can be decoded."""
    first: float | None = None
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            time_s = float(frame.time or 0.0)
            first = time_s if first is None else first
            yield time_s - first, np.ascontiguousarray(frame.to_ndarray(format="gray"))


def sights(original: Path, output: Path, face_box: Callable[[float], Box | None]) -> list[Sight]:
    """All faces in the frames of `output`, which shows (a beginning of) `original` frame by frame.

    face_box: the face at a time of the original, x1 y1 x2 y2 in pixels, or None.
    """
    found = []
    for (time_s, before), (_, after) in zip(frames(original), frames(output), strict=False):
        box = face_box(time_s)
        if box is not None and (inside := central_part(box, before.shape)) is not None:
            found.append(Sight(time_s, box, similarity(before, after, inside)))
    return found


def visible(original: Path, output: Path, face_box: Callable[[float], Box | None]) -> list[Sight]:
    """The faces that can still be recognised; there should be none."""
    return [sight for sight in sights(original, output, face_box) if sight.visible]


def similarity(before: UInt8, after: UInt8, box: Box) -> float:
    """Correlation of the facial features in `box`, -1 to 1."""
    a, b = (_features(picture, box) for picture in (before, after))
    power = float(np.sqrt((a * a).sum() * (b * b).sum()))
    # Where the output holds no structure at all there is nothing to recognise.
    return float((a * b).sum()) / power if power > PATCH_PX * PATCH_PX else 0.0


def _features(picture: UInt8, box: Box) -> npt.NDArray[np.float32]:
    x1, y1, x2, y2 = (round(v) for v in box)
    patch = cv2.resize(picture[y1:y2, x1:x2], (PATCH_PX, PATCH_PX), interpolation=cv2.INTER_AREA).astype(np.float32)
    band: npt.NDArray[np.float32] = cv2.GaussianBlur(patch, (0, 0), 0.8) - cv2.GaussianBlur(patch, (0, 0), 1.6)
    return band - band.mean()


def central_part(box: Box, shape: tuple[int, ...]) -> Box | None:
    """The middle of the face, when enough of it lies inside the picture to know someone by."""
    x1, y1, x2, y2 = box
    dx, dy = (x2 - x1) * (1 - CENTRAL) / 2, (y2 - y1) * (1 - CENTRAL) / 2
    inside = max(0.0, x1 + dx), max(0.0, y1 + dy), min(float(shape[1]), x2 - dx), min(float(shape[0]), y2 - dy)
    share = (inside[2] - inside[0]) / (x2 - x1 - 2 * dx), (inside[3] - inside[1]) / (y2 - y1 - 2 * dy)
    large = inside[2] - inside[0] >= MIN_PX and inside[3] - inside[1] >= MIN_PX
    return inside if large and min(share) >= 0.5 else None
