"""From the pictures of a set to what the detector's network sees of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from calibration.face_set import FaceSet, SetPicture
from edge.detect.detector import run_time_scales
from edge.detect.input import InputBuilder
from edge.detect.placement import Placement, place
from edge.models.description import ModelDescription
from edge.pictures import read_picture
from edge.types import UInt8


@dataclass(frozen=True, slots=True)
class DetectorInputs:
    """RGB inputs, uint8 (1, height, width, 3), of every picture at every scale; made anew by each iteration.

    One picture is in memory at a time. The length is known without reading one.
    """

    face_set: FaceSet
    model: ModelDescription
    scales: tuple[int, ...] = ()

    def __len__(self) -> int:
        return sum(len(self._placements(picture)) for picture in self.face_set.pictures)

    def __iter__(self) -> Iterator[UInt8]:
        builder = InputBuilder()
        for entry in self.face_set.pictures:
            picture = read_picture(entry.path).picture
            for pixels in builder.build(picture, self._placements(entry)):
                yield pixels.copy()         # the builder writes over its own

    def _placements(self, picture: SetPicture) -> list[Placement]:
        scales = self.scales or run_time_scales(picture.width_px, picture.height_px)
        size = (picture.width_px, picture.height_px, Fraction(1))
        return [place(*size, scale, self.model.input.stride_multiple) for scale in scales]


def inputs(face_set: FaceSet, model: ModelDescription, scales: Sequence[int] = ()) -> DetectorInputs:
    """What the network of `model` sees, through the code that runs at run time.

    scales: longer sides in pixels; empty for those that a run would take for each picture.
    Iterating raises InputError when a picture has gone or changed.
    """
    return DetectorInputs(face_set, model, tuple(scales))
