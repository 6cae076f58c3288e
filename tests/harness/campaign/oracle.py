"""Says for every frame of a recording whether a face of the source can be recognised in it, whenever that was taken.

A recording of a live camera starts anywhere in the source, and frames are missing from it. Two looks, and one is
enough:

* The background tells which frames of the source it may be. At the places of their faces the features of these are
  looked for, a few pixels around: this finds small and badly encoded faces.
* The features of faces of all sizes that the source shows are looked for everywhere in a smaller picture: this finds
  a face where the rest of the picture is damaged, or where none should be.

`tests/faults/test_campaign_oracle.py` holds what it sees and what it leaves alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from edge.types import UInt8
from tests.harness import sample
from tests.harness.oracle import Box, central_part, frames

Float32 = npt.NDArray[np.float32]
Boxes = Callable[[float], Sequence[Box]]

PATCH_PX, SHIFT_PX = 40, 4      # a face is looked at in this size, and this far from its place
VISIBLE = 0.5
THUMB = (64, 36)
KNOWN = 0.75                    # likeness of the background from which there is no doubt which frame it is
CANDIDATES = 3                  # frames of the source that it may be otherwise
SMALL_WIDTH_PX, VISIBLE_SMALL = 240, 0.75
SIZES_PX, SIZE_STEP = (20, 70), 1.1     # heights of the central part of faces that are looked for in it
# Where nothing changes from pixel to pixel a correlation is a ratio of rounding errors.
GRAIN = np.random.default_rng(1).normal(0, 0.3, (1080, 1920)).astype(np.float32)


def sample_boxes(time_s: float) -> list[Box]:
    """The face of the sample clip."""
    box = sample.face_box(time_s)
    return [] if box is None else [box]


def labelled_boxes(labels: Path) -> Boxes:
    """The faces of a label file of the shared data."""
    found = [
        (frame["t"], [(x, y, x + w, y + h) for x, y, w, h in (face["box"] for face in frame["faces"])])
        for frame in json.loads(labels.read_text())["frames"]
    ]
    times = np.array([time_s for time_s, _ in found])
    return lambda time_s: found[int(np.argmin(np.abs(times - time_s)))][1]


@dataclass(frozen=True, slots=True)
class _Known:
    """A face of the source: its central part in a picture, and its features there."""

    box: Box
    features: Float32


class Oracle:
    """Knows one source clip. boxes: its faces at a time, x1 y1 x2 y2 in pixels."""

    def __init__(self, clip: Path, boxes: Boxes = sample_boxes) -> None:
        self._faces: list[list[_Known]] = []
        self._templates: dict[int, Float32] = {}
        self._times_s: list[float] = []
        thumbs = []
        for time_s, picture in frames(clip):
            self._times_s.append(time_s)
            self._size = picture.shape[1], picture.shape[0]
            known = []
            for box in filter(None, (central_part(each, picture.shape) for each in boxes(time_s))):
                known.append(_Known(box, _features(picture, box, PATCH_PX, 0)))
                self._add_template(picture, box)
            self._faces.append(known)
            thumbs.append(_thumb(picture))
        self._thumbs = np.stack(thumbs)

    def look(self, recording: Path) -> Iterator[tuple[float, bool]]:
        """(seconds since the first frame, whether a face can be recognised) of all frames that decode."""
        for time_s, picture in frames(recording):
            yield time_s, self.sees(picture)

    def sees(self, picture: UInt8) -> bool:
        """Whether a face can be recognised. picture: luma uint8 (H, W)."""
        if (picture.shape[1], picture.shape[0]) != self._size:
            picture = np.asarray(cv2.resize(picture, self._size, interpolation=cv2.INTER_AREA), np.uint8)
        likeness = self._thumbs @ _thumb(picture)
        known = likeness.max() >= KNOWN
        if self.nearby(picture, likeness, 1 if known else CANDIDATES) >= VISIBLE:
            return True
        return not known and self.anywhere(picture) >= VISIBLE_SMALL

    def shows_face(self, time_s: float) -> bool:
        """Whether the source shows a face then that is large enough, and inside the picture enough, to be judged."""
        return bool(self._faces[int(np.argmin(np.abs(np.array(self._times_s) - time_s)))])

    def nearby(self, picture: UInt8, likeness: Float32, candidates: int) -> float:
        """Best correlation at the places of faces in the frames that this may be, -1 to 1."""
        best, tried, likeness = -1.0, set[int](), likeness.copy()
        for _ in range(candidates):
            index = int(np.argmax(likeness))
            near = range(max(0, index - 1), min(len(self._faces), index + 2))
            likeness[max(0, index - 5) : index + 6] = -2.0
            for known in (face for number in near if number not in tried for face in self._faces[number]):
                best = max(best, _correlation(_features(picture, known.box, PATCH_PX, SHIFT_PX), known.features))
            tried.update(near)
        return best

    def anywhere(self, picture: UInt8) -> float:
        """Best correlation with a face of any size of the source at any place, -1 to 1."""
        height_px = round(picture.shape[0] * SMALL_WIDTH_PX / picture.shape[1])
        small = cv2.resize(picture, (SMALL_WIDTH_PX, height_px), interpolation=cv2.INTER_AREA)
        return max((_correlation(_band(small, template.shape[0]), template) for template in self._templates.values()),
                   default=-1.0)  # fmt: skip

    def _add_template(self, picture: UInt8, box: Box) -> None:
        factor = SMALL_WIDTH_PX / self._size[0]
        if box[0] <= 0 or box[1] <= 0 or box[2] >= self._size[0] or box[3] >= self._size[1]:
            return
        x1, y1, x2, y2 = (round(value * factor) for value in box)
        step = round(float(np.log(max(1, y2 - y1)) / np.log(SIZE_STEP)))
        if step not in self._templates and SIZES_PX[0] <= y2 - y1 <= SIZES_PX[1]:
            small = cv2.resize(picture, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
            self._templates[step] = _band(small, y2 - y1)[y1:y2, x1:x2].copy()


def _features(picture: UInt8, box: Box, patch_px: int, margin_px: int) -> Float32:
    """What makes a face, in one size; `margin_px` more on each side. Outside the picture its edge goes on."""
    x1, y1, x2, y2 = box
    side = patch_px + 2 * margin_px
    step_x, step_y = (x2 - x1) / patch_px, (y2 - y1) / patch_px
    left, top = round(x1 - margin_px * step_x), round(y1 - margin_px * step_y)
    right, bottom = round(x2 + margin_px * step_x), round(y2 + margin_px * step_y)
    height, width = picture.shape
    inside = picture[max(0, top) : min(height, bottom), max(0, left) : min(width, right)]
    over = max(0, -top), max(0, bottom - height), max(0, -left), max(0, right - width)
    if any(over):
        inside = cv2.copyMakeBorder(inside, *over, cv2.BORDER_REPLICATE)
    patch = cv2.resize(inside, (side, side), interpolation=cv2.INTER_AREA)
    return np.asarray(_band_of(patch, 0.8), np.float32)


def _band(small: npt.NDArray[np.uint8], face_px: int) -> Float32:
    return _band_of(small, max(0.8, face_px / 40))


def _band_of(picture: npt.NDArray[np.uint8], sigma: float) -> Float32:
    values = picture.astype(np.float32)
    return np.asarray(cv2.GaussianBlur(values, (0, 0), sigma) - cv2.GaussianBlur(values, (0, 0), 2 * sigma), np.float32)


def _correlation(where: Float32, what: Float32) -> float:
    if where.shape[0] < what.shape[0] or where.shape[1] < what.shape[1]:
        return -1.0
    where = where + GRAIN[: where.shape[0], : where.shape[1]]
    return float(cv2.matchTemplate(where, what, cv2.TM_CCOEFF_NORMED).max())


def _thumb(picture: UInt8) -> Float32:
    thumb = cv2.resize(picture, THUMB, interpolation=cv2.INTER_AREA).astype(np.float32)
    thumb -= cv2.GaussianBlur(thumb, (0, 0), 4)
    return np.asarray(thumb.ravel() / (float(np.linalg.norm(thumb)) + 1e-6), np.float32)
