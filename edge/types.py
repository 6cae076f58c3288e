"""Data that flows through the frame path: plain frozen types, no behaviour beyond validation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

UInt8 = npt.NDArray[np.uint8]
Float32 = npt.NDArray[np.float32]

Layout = Literal["nv12", "bgr", "bgra", "gray"]
Landmarks = tuple[tuple[float, float], ...]
RegionOrigin = Literal["detected", "bridged", "lead", "held", "zone"]
Redaction = Literal["regions", "whole"]


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """One plane of samples of a picture.

    samples: uint8 (or uint16 for still pictures), (H, W) or (H, W, C), writable; rows may be padded
        (``strides[0]`` larger than the row).
    step_x, step_y: picture pixels that one sample covers; 1 for luma and packed colours, 2 for NV12 chroma.
        The sample at (row, column) covers pixels [column * step_x, (column + 1) * step_x) and so on; with an
        odd picture size the last sample covers what is left.
    """

    samples: npt.NDArray[np.generic]
    step_x: int = 1
    step_y: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """Pixels exactly as they will be stored: rotation, crop and padding already applied.

    planes: for ``nv12`` luma (H, W) and interleaved chroma (ceil(H/2), ceil(W/2), 2); for ``bgr``, ``bgra`` and
        ``gray`` a single plane.
    matrix, full_range: how YCbCr maps to R'G'B' (ITU-R BT.601, BT.709 or BT.2020); ignored for packed layouts.
    pixel_aspect: width over height of one stored pixel on a display; 1 for square pixels.
    """

    width_px: int
    height_px: int
    layout: Layout
    planes: tuple[Plane, ...]
    matrix: Literal["bt601", "bt709", "bt2020"] = "bt601"
    full_range: bool = False
    pixel_aspect: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One picture of a source on its way through the pipeline. It has not been anonymised.

    source: name of the camera or file, for messages.
    epoch: starts at 0, one more whenever the picture format changes or the source reconnects; a recorder starts
        a new segment with it.
    index: position within the source, from 0, without gaps within an epoch.
    pts_ns, duration_ns: presentation time and duration on the source's own time line, nanoseconds.
    damaged: the decoder reported missing or corrupt data in this picture or in one it refers to.
    storage: what backs `picture` and what the recorder writes without a copy; opaque here.
    release: gives the backing memory back; called by the recorder or by whoever drops the frame. When recording fails
        both do: calling it again does nothing.
    """

    source: str
    epoch: int
    index: int
    picture: Picture
    pts_ns: int
    duration_ns: int
    damaged: bool = False
    storage: object = None
    release: Callable[[], None] = field(default=lambda: None, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """Faces found in one picture, best first.

    boxes: float32 (N, 4), x1 y1 x2 y2 in pixels of the stored picture; x2 and y2 exclusive. May reach over the border.
    scores: float32 (N,), 0 to 1.
    landmarks: float32 (N, 5, 2) pixels (right eye, left eye, nose, right and left corner of the mouth, as the
        person has them), or None where the model gives none.
    """

    boxes: Float32
    scores: Float32
    landmarks: Float32 | None = None

    def __post_init__(self) -> None:
        n = len(self.scores)
        if self.boxes.shape != (n, 4) or self.scores.shape != (n,):
            raise ValueError(f"boxes {self.boxes.shape} and scores {self.scores.shape} do not belong together")
        if self.landmarks is not None and self.landmarks.shape != (n, 5, 2):
            raise ValueError(f"landmarks are {self.landmarks.shape}, expected {(n, 5, 2)}")

    def __len__(self) -> int:
        return len(self.scores)

    @staticmethod
    def none(landmarks: bool = False) -> Detections:
        """No face: N is 0."""
        empty = np.zeros((0, 4), np.float32)
        points = np.zeros((0, 5, 2), np.float32) if landmarks else None
        return Detections(empty, np.zeros(0, np.float32), points)


@dataclass(frozen=True, slots=True)
class Region:
    """A face to hide in one frame.

    box: x1 y1 x2 y2, pixels of the stored picture, exclusive ends, before `mask_scale`; includes what the tracker
        adds for uncertainty. May reach over the border.
    track_id: stable over the life of a track, from 1; 0 for zones.
    origin: why it is here. ``detected`` in this frame; ``bridged`` between two detections; ``lead`` before the first;
        ``held`` after the last one.
    landmarks: five points as in `Detections`, or None when unknown or too old to align anything with.
    """

    box: tuple[float, float, float, float]
    track_id: int
    origin: RegionOrigin
    landmarks: Landmarks | None = None
