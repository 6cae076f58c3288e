"""Where a picture lies in the detector input."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

# The picture may be squashed by this much along its shorter side to fit the stride: cheaper than padding, and less than
# faces differ among themselves. 1280x720 then runs as 1280x704 and not as 1280x736.
MAX_SQUASH = 0.03


@dataclass(frozen=True, slots=True)
class Placement:
    """The picture is scaled to content_width_px x content_height_px and put into the upper left corner.

    width_px, height_px: the detector input; multiples of the stride. scale_x, scale_y: input pixels per stored pixel.
    """

    width_px: int
    height_px: int
    content_width_px: int
    content_height_px: int
    scale_x: float
    scale_y: float


@lru_cache(maxsize=256)
def place(width_px: int, height_px: int, pixel_aspect: Fraction, scale_px: int, multiple: int) -> Placement:
    """Fit a stored picture into an input whose longer side is `scale_px`, with square pixels.

    scale_px is raised to a multiple of `multiple`. Content sizes are even, so that chroma can be scaled alike.
    """
    longer = -(-scale_px // multiple) * multiple
    shown_width = float(width_px * pixel_aspect)
    shorter = longer * min(shown_width, height_px) / max(shown_width, height_px)
    padded = max(multiple, -(-round(shorter, 3) // multiple) * multiple)
    squashed = shorter // multiple * multiple
    if squashed and squashed >= (1 - MAX_SQUASH) * shorter:
        padded = shorter = squashed
    content = max(2, 2 * round(shorter / 2))
    if shown_width >= height_px:
        return Placement(longer, int(padded), longer, int(content), longer / width_px, content / height_px)
    return Placement(int(padded), longer, int(content), longer, content / width_px, longer / height_px)
