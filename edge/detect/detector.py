"""Finds faces in a picture, at several scales."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edge.detect.candidates import Candidates, Reader
from edge.detect.centerface import read_centerface
from edge.detect.input import InputBuilder
from edge.detect.nms import suppress
from edge.detect.placement import Placement, place
from edge.detect.retinaface import read_retinaface
from edge.detect.scrfd import read_scrfd
from edge.detect.yunet import read_yunet
from edge.errors import DetectorError
from edge.inference.runtime import Runtime, open_runtime
from edge.models.choose import ResolvedModel, choose
from edge.models.description import Family, Landmark
from edge.settings import DetectSettings
from edge.types import Detections, Float32, Picture, Plane

READERS: dict[Family, Reader] = {
    "yunet": read_yunet,
    "centerface": read_centerface,
    "scrfd": read_scrfd,
    "retinaface": read_retinaface,
}
LANDMARK_ORDER: tuple[Landmark, ...] = ("right_eye", "left_eye", "nose", "right_mouth", "left_mouth")
# Scale, and the longer side of a picture in pixels from which on it is used. Measured on labelled photos:
# docs/models.md.
SCALES = ((320, 0), (640, 260), (1280, 1000), (1920, 2500))
MAX_IOU = 0.4               # boxes that overlap more are the same face
MAX_CANDIDATES = 2000       # per picture; the best are kept
MAX_NOTES = 20
MIN_FACE_PX = 1.0           # smaller boxes, in stored pixels, are noise


class Detector:
    """A face detector, loaded. `detect` may be called from several threads at once.

    settings: which model, at which scales, on what. models_dir: where model files are kept, instead of the user's
    cache. runtime: runs the graph, instead of what the settings would open; closed with the detector. Raises what
    `choose` and `open_runtime` raise.

    name: of the model, for people. reason: why this model, when that is not obvious. score_threshold: what counts as a
    face. landmarks: whether there are five points per face.
    """

    def __init__(
        self, settings: DetectSettings, models_dir: Path | None = None, runtime: Runtime | None = None
    ) -> None:
        self._settings = settings
        self._resolved: ResolvedModel = choose(settings.model, models_dir)
        model = self._resolved.description
        self._reader = READERS[model.family]
        self._order = [model.landmarks.index(point) for point in LANDMARK_ORDER] if model.landmarks else []
        self._inputs = InputBuilder()
        self._notes: deque[str] = deque(maxlen=MAX_NOTES)
        self._runtime: Runtime = runtime or open_runtime(
            settings.backend,
            self._resolved.path,
            model,
            settings.engine_dir,
            settings.require_gpu,
            self._notes.append,
        )
        self.name = model.title
        self.reason = self._resolved.reason
        self.landmarks = bool(model.landmarks)
        threshold = settings.score_threshold
        self.score_threshold = model.score_threshold if threshold is None else threshold

    def describe(self) -> str:
        """Model and runtime, for people."""
        return f"{self.name} on {self._runtime.describe()}{f' ({self.reason})' if self.reason else ''}"

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
        model = self._resolved.description
        multiple = model.input.stride_multiple
        size = (picture.width_px, picture.height_px, picture.pixel_aspect)
        placements = [place(*size, scale, multiple) for scale in scales]
        found: list[Detections] = []
        for placement, pixels in zip(placements, self._inputs.build(picture, placements), strict=True):
            maps = self._runtime.run(pixels)
            candidates = self._reader(maps, model, placement.height_px, placement.width_px, min_score)
            found.append(self._in_picture(candidates, placement, picture))
        return _merged(found, self.landmarks)

    def warm_up(self, width_px: int, height_px: int) -> None:
        """Look at a grey picture of this size at every scale, so that a model that cannot work fails before a run.

        Raises DetectorError.
        """
        grey = np.full((height_px, width_px), 128, np.uint8)
        self.detect(Picture(width_px, height_px, "gray", (Plane(grey),)), self.scales_for(width_px, height_px), 1.0)

    def close(self) -> None:
        """Give memory back."""
        self._runtime.close()

    def _in_picture(self, candidates: Candidates, placement: Placement, picture: Picture) -> Detections:
        """Stored pixels; boxes reach over the border by at most half the picture; specks are dropped."""
        scale = np.array((placement.scale_x, placement.scale_y), np.float32)
        size = np.array((picture.width_px, picture.height_px) * 2, np.float32)
        boxes: Float32 = np.clip(candidates.boxes / np.tile(scale, 2), -0.5 * size, 1.5 * size)
        sides = np.minimum(boxes[:, 2:], size[:2]) - np.maximum(boxes[:, :2], 0)
        keep = (sides >= MIN_FACE_PX).all(axis=1)
        points: Float32 | None = None
        if candidates.landmarks is not None:
            points = candidates.landmarks[keep][:, self._order] / scale
        return _checked(boxes[keep], candidates.scores[keep], points)


def run_time_scales(width_px: int, height_px: int, still: bool = False) -> tuple[int, ...]:
    """What `Detector.scales_for` gives unless the settings name scales."""
    longer = max(width_px, height_px) * (2 if still else 1)
    return tuple(scale for scale, from_px in SCALES if longer >= from_px)


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


