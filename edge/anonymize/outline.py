"""A frame around each mask, on top of everything, for those who check what was found."""

from __future__ import annotations

from edge.anonymize.masks import Mask, Rect, picture_step_px
from edge.anonymize.solid import Solid
from edge.types import Picture

GREEN = (0, 255, 0)


def draw_outline(picture: Picture, mask: Mask, color: tuple[int, int, int] = GREEN) -> None:
    """Draw the border of the mask's bounds, inside them, 2 px wide or 1/400 of the picture; whole chroma samples."""
    x1, y1, x2, y2 = mask.bounds
    left, top, right, bottom = mask.visible
    step = picture_step_px(picture)
    thick = max(2, min(picture.width_px, picture.height_px) // 400 // step * step)
    pen = Solid(color)
    sides: tuple[Rect, ...] = (
        (left, y1, right, y1 + thick),
        (left, y2 - thick, right, y2),
        (x1, top, x1 + thick, bottom),
        (x2 - thick, top, x2, bottom),
    )
    for side in sides:
        part = max(side[0], left), max(side[1], top), min(side[2], right), min(side[3], bottom)
        if part[0] < part[2] and part[1] < part[3]:
            pen.paint(picture, Mask(part, part, None))
