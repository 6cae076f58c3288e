"""Finds faces in a picture, at several scales."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from edge.detect.candidates import Candidates
from edge.detect.input import InputBuilder
from edge.detect.network import Network
from edge.detect.nms import suppress
from edge.detect.placement import Placement, place
from edge.errors import DetectorError
from edge.models.description import Landmark, ModelDescription
from edge.settings import DetectSettings
from edge.types import Detections, Float32, Picture, Plane

LANDMARK_ORDER: tuple[Landmark, ...] = ("right_eye", "left_eye", "nose", "right_mouth", "left_mouth")
# Scale, and the longer side of a picture in pixels from which on it is used. Measured on labelled photos:
# docs/models.md.
SCALES = ((320, 0), (640, 260), (1280, 1000), (1920, 2500))
MAX_IOU = 0.4               # boxes that overlap more are the same face
MAX_CANDIDATES = 2000       # per picture; the best are kept
MIN_FACE_PX = 1.0           # smaller boxes, in stored pixels, are noise


class Detector:
    """A face detector, loaded. `detect` may be called from several threads at once.

    settings: threshold and scales. network: finds candidates; closed with the detector. notes: what the network has to
    say, for people; it may add to them at any time. `edge.inference.local_network.open_detector` opens all of it.
    """

    def __init__(self, settings: DetectSettings, network: Network, notes: deque[str] | None = None) -> None:
        self._settings = settings
        self._network = network
        self._inputs = InputBuilder()
        self._notes: deque[str] = deque() if notes is None else notes

    @property
    def name(self) -> str:
        """Of the model, for people."""
        return self._network.model.title

    @property
    def reason(self) -> str:
        """Why this model, when that is not obvious."""
        return self._network.reason

    @property
    def score_threshold(self) -> float:
        """What counts as a face."""
        threshold = self._settings.score_threshold
        return self._network.model.score_threshold if threshold is None else threshold

    @property
    def landmarks(self) -> bool:
        """Whether there are five points per face."""
        return bool(self._network.model.landmarks)

    def describe(self) -> str:
        """Model and runtime, for people."""
        return f"{self.name} on {self._network.describe()}{f' ({self.reason})' if self.reason else ''}"

    def take_notes(self) -> list[str]:
        """What users should know about how faces are found, and have not been told: a GPU that is not used."""
        notes = []
        while self._notes:
            notes.append(self._notes.popleft())
        return notes

    def scales_for(self, width_px: int, height_px: int, still: bool = False) -> tuple[int, ...]:
        """Scales, ascending: those of the settings, else by the longer side of the picture.

        A small scale finds faces that fill the picture, a large one small faces. still: a single picture has no frames
        before and after it to make up for a miss, and gets one scale more.
        """
        if self._settings.scales:
            return tuple(sorted(set(self._settings.scales)))
        return run_time_scales(width_px, height_px, still)

    def detect(self, picture: Picture, scales: Sequence[int], min_score: float) -> Detections:
        """Faces with a score of at least `min_score`, best first, in pixels of the stored picture.

        Raises DetectorError when a run fails or gives something that cannot be faces.
        """
        model = self._network.model
        multiple = model.input.stride_multiple
        size = (picture.width_px, picture.height_px, picture.pixel_aspect)
        placements = [place(*size, scale, multiple) for scale in scales]
        found: list[Detections] = []
        for placement, pixels in zip(placements, self._inputs.build(picture, placements), strict=True):
            candidates = self._network.find(pixels, min_score)
            found.append(_in_picture(candidates, model, placement, picture))
        if self._network.model is not model:        # the inference process came back with another one
            raise DetectorError("the model changed while this picture was looked at")
        return _merged(found, bool(model.landmarks))

    def warm_up(self, width_px: int, height_px: int) -> None:
        """Look at a grey picture of this size at every scale, so that a model that cannot work fails before a run.

        Raises DetectorError.
        """
        grey = np.full((height_px, width_px), 128, np.uint8)
        self.detect(Picture(width_px, height_px, "gray", (Plane(grey),)), self.scales_for(width_px, height_px), 1.0)

    def close(self) -> None:
        """Give memory back."""
        self._network.close()


def run_time_scales(width_px: int, height_px: int, still: bool = False) -> tuple[int, ...]:
    """What `Detector.scales_for` gives unless the settings name scales."""
    longer = max(width_px, height_px) * (2 if still else 1)
    return tuple(scale for scale, from_px in SCALES if longer >= from_px)


def _in_picture(
    candidates: Candidates, model: ModelDescription, placement: Placement, picture: Picture
) -> Detections:
    """Stored pixels; boxes reach over the border by at most half the picture; specks are dropped."""
    scale = np.array((placement.scale_x, placement.scale_y), np.float32)
    size = np.array((picture.width_px, picture.height_px) * 2, np.float32)
    boxes: Float32 = np.clip(candidates.boxes / np.tile(scale, 2), -0.5 * size, 1.5 * size)
    sides = np.minimum(boxes[:, 2:], size[:2]) - np.maximum(boxes[:, :2], 0)
    keep = (sides >= MIN_FACE_PX).all(axis=1)
    points: Float32 | None = None
    if candidates.landmarks is not None:
        order = [model.landmarks.index(point) for point in LANDMARK_ORDER]
        points = candidates.landmarks[keep][:, order] / scale
    return _checked(boxes[keep], candidates.scores[keep], points)


def _checked(boxes: Float32, scores: Float32, landmarks: Float32 | None) -> Detections:
    arrays = [boxes, scores] if landmarks is None else [boxes, scores, landmarks]
    if not all(np.isfinite(array).all() for array in arrays):
        raise DetectorError("the detector gave boxes that are not finite")
    return Detections(*(np.ascontiguousarray(array, np.float32) for array in arrays))


def _merged(found: Sequence[Detections], landmarks: bool) -> Detections:
    """One box per face: of boxes that overlap, from whichever scale, the best stays with its landmarks."""
    if not any(len(each) for each in found):
        return Detections.none(landmarks)
    boxes = np.concatenate([each.boxes for each in found])
    scores = np.concatenate([each.scores for each in found])
    keep = suppress(boxes, scores, MAX_IOU, MAX_CANDIDATES)
    if not landmarks:
        return Detections(boxes[keep], scores[keep])
    points = np.concatenate([each.landmarks for each in found if each.landmarks is not None])
    return Detections(boxes[keep], scores[keep], points[keep])


