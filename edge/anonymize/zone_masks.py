"""Zones as pixels: drawn once per picture size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from edge.anonymize.masks import MIN_BLOCK_PX, Mask, Rect, pad_to_even
from edge.settings import Zone
from edge.types import UInt8

_BLOCKS_PER_PICTURE = 16
_FRACTION_BITS = 8


@dataclass(frozen=True, slots=True, eq=False)
class ZoneMasks:
    """Zones at one picture size.

    always: masks to paint in every frame. Their blocks are at least 1/16 of the picture's shorter side, because a
        narrow zone may cut a large face.
    always_px: sum of their areas. keep: uint8 (H, W), 0 in never-zones and 1 elsewhere; None without never-zones.
    """

    always: tuple[Mask, ...]
    always_px: int
    keep: UInt8 | None

    def without_never(self, mask: Mask) -> Mask | None:
        """`mask` less the never-zones; None if nothing is left. Edges of never-zones are masked."""
        if self.keep is None:
            return mask
        x1, y1, x2, y2 = mask.visible
        keep = self.keep[y1:y2, x1:x2]
        if keep.all():
            return mask
        stencil = pad_to_even(keep.copy() if mask.stencil is None else keep & mask.stencil[: y2 - y1, : x2 - x1])
        return Mask(mask.bounds, mask.visible, stencil) if stencil.any() else None


def zone_masks(zones: Sequence[Zone], width_px: int, height_px: int, step: int) -> ZoneMasks:
    """Draw zones for pictures of one size. `step`: pixels per sample of the coarsest plane."""
    always = [_always(zone, width_px, height_px, step) for zone in zones if zone.kind == "always"]
    never = [_never(zone, width_px, height_px) for zone in zones if zone.kind == "never"]
    keep: UInt8 | None = None
    if never:
        keep = np.ones((height_px, width_px), np.uint8)
        for drawn in never:
            keep[drawn != 0] = 0
    return ZoneMasks(tuple(always), sum(mask.area_px() for mask in always), keep)


def _always(zone: Zone, width_px: int, height_px: int, step: int) -> Mask:
    """The mask of everything inside the outline: also what a self-crossing outline encloses twice."""
    drawn = _polygon(zone, width_px, height_px)
    outlines, _ = cv2.findContours(drawn, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(drawn, outlines, -1, 1, cv2.FILLED)
    rows = np.flatnonzero(drawn.any(axis=1))
    columns = np.flatnonzero(drawn.any(axis=0))
    x1, x2 = int(columns[0]) // step * step, -(-(int(columns[-1]) + 1) // step) * step
    y1, y2 = int(rows[0]) // step * step, -(-(int(rows[-1]) + 1) // step) * step
    visible: Rect = (x1, y1, min(x2, width_px), min(y2, height_px))
    stencil = np.ascontiguousarray(drawn[y1 : visible[3], x1 : visible[2]])
    block_px = max(MIN_BLOCK_PX, min(width_px, height_px) // _BLOCKS_PER_PICTURE)
    return Mask((x1, y1, x2, y2), visible, None if stencil.all() else pad_to_even(stencil), block_px)


def _never(zone: Zone, width_px: int, height_px: int) -> UInt8:
    """The pixels that lie inside the outline and do not touch it: in doubt a pixel is masked."""
    drawn = _polygon(zone, width_px, height_px)
    around = np.ones((3, 3), np.uint8)
    return np.asarray(cv2.erode(drawn, around, borderType=cv2.BORDER_CONSTANT, borderValue=1), np.uint8)


def _polygon(zone: Zone, width_px: int, height_px: int) -> UInt8:
    """1 inside the polygon and on its outline, 0 elsewhere, uint8 (H, W)."""
    drawn = np.zeros((height_px, width_px), np.uint8)
    # the centre of pixel 0 is half a pixel from the edge of the picture
    points = np.array(zone.corners, np.float64) * (width_px, height_px) - 0.5
    points = points.clip(0, (width_px - 1, height_px - 1))
    fixed = np.rint(points * (1 << _FRACTION_BITS)).astype(np.int32)
    cv2.fillPoly(drawn, [fixed], 1, lineType=cv2.LINE_8, shift=_FRACTION_BITS)
    return drawn
