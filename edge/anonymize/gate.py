"""The gate: the only maker of `SafeFrame`, which is all that a recorder takes (promise P1).

Whatever goes wrong between a frame and its masks ends in a frame that is hidden whole, or in an error; there is no
path from an unmasked `Frame` to a `SafeFrame`. A test walks the source tree to see that nothing else makes one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import NoReturn, final

from edge.anonymize.blur import Blur
from edge.anonymize.mannequin import Mannequin
from edge.anonymize.mark import draw_mark
from edge.anonymize.masks import Mask, face_mask, is_sane, picture_step_px
from edge.anonymize.method import Method
from edge.anonymize.outline import draw_outline
from edge.anonymize.overlay import Overlay
from edge.anonymize.pixelate import Pixelate
from edge.anonymize.solid import Solid
from edge.anonymize.whole import fits, hide_whole
from edge.anonymize.zone_masks import ZoneMasks, zone_masks
from edge.errors import UnsafeFrameError, UsageError
from edge.settings import MaskSettings
from edge.types import Frame, Picture, Redaction, Region

_log = logging.getLogger(__name__)
_SEAL = object()

DAMAGED = "damaged"
MAX_BLOCKS = 12
MAX_MASK_SCALE = 10.0


@final
class SafeFrame:
    """A frame in which every known face has been hidden. Made by `Anonymizer` only, used once.

    redaction: ``regions`` if faces were masked one by one (or there were none), ``whole`` if all of it was hidden.
    regions: number of faces and zones that were masked; 0 for ``whole``.
    masked_share: masked part of the picture, 0 to 1; where masks overlap, pixels count once per mask.
    reason: why it was hidden whole; empty otherwise. swapped: tracks whose faces were not only masked but replaced.
    """

    __slots__ = ("_frame", "masked_share", "reason", "redaction", "regions", "swapped")

    def __init__(
        self, seal: object, frame: Frame, redaction: Redaction, regions: int, masked_share: float, reason: str = "",
        swapped: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        if seal is not _SEAL:
            raise UnsafeFrameError("only the anonymiser makes safe frames")
        self._frame = [frame]
        self.redaction = redaction
        self.regions = regions
        self.masked_share = masked_share
        self.reason = reason
        self.swapped = swapped

    @property
    def picture(self) -> Picture:
        """The hidden picture, to look at before somebody takes the frame; UnsafeFrameError after that."""
        try:
            return self._frame[0].picture
        except IndexError:
            raise UnsafeFrameError("this safe frame was used already") from None

    def take(self) -> Frame:
        """Hand the frame over, once; whoever takes it releases it. Raises UnsafeFrameError the second time."""
        try:
            return self._frame.pop()    # one atomic step: two threads cannot both have it
        except IndexError:
            raise UnsafeFrameError("this safe frame was used already") from None

    def __reduce__(self) -> NoReturn:
        raise UnsafeFrameError("a safe frame cannot be copied or pickled")


class Anonymizer:
    """Hides faces in frames, in place. One per job; not thread-safe.

    Raises UsageError if the settings would not hide a face.
    """

    def __init__(self, settings: MaskSettings) -> None:
        _check(settings)
        self._settings = settings
        self._method = _method(settings)
        # neither an image nor a head has sense on a zone
        self._zone_method = Pixelate(settings.blocks) if settings.method in ("image", "swap") else self._method
        self._zones: dict[tuple[int, int, int], ZoneMasks] = {}

    def apply(self, frame: Frame, regions: Sequence[Region]) -> SafeFrame:
        """Mask these regions; the whole frame if it is damaged, a region makes no sense, or anything fails.

        Raises UnsafeFrameError if not even the whole frame could be hidden.
        """
        if frame.damaged:
            return self.redact(frame, DAMAGED)
        try:
            share, count = self._mask(frame, regions)
        except Exception as error:      # every failure ends the same way: nothing of this frame is shown
            return self.redact(frame, f"masking failed: {error}")
        swapped = tuple(self._method.swapped) if isinstance(self._method, Mannequin) else ()
        return SafeFrame(_SEAL, frame, "regions", count, share, swapped=swapped)

    def redact(self, frame: Frame, reason: str) -> SafeFrame:
        """Hide the whole frame. Raises UnsafeFrameError if its samples cannot be overwritten."""
        _log.debug("%s: frame %d is masked whole: %s", frame.source, frame.index, reason)
        try:
            hide_whole(frame.picture)
        except UnsafeFrameError:
            raise
        except Exception as error:
            raise UnsafeFrameError(f"frame {frame.index} of {frame.source} cannot be hidden: {error}") from error
        return SafeFrame(_SEAL, frame, "whole", 0, 1.0, reason)

    def _mask(self, frame: Frame, regions: Sequence[Region]) -> tuple[float, int]:
        picture = frame.picture
        if not fits(picture):
            raise ValueError("the planes do not fit the picture")
        settings = self._settings
        zones = self._zones_for(picture)
        masks: list[tuple[Mask, Region]] = []
        for region in regions:      # all are checked before the first is painted
            if not is_sane(region.box):
                raise ValueError(f"region {region.box} is not a box")
            mask = face_mask(region.box, picture, settings.mask_scale, settings.shape)
            if mask is not None and (zones is None or (mask := zones.without_never(mask)) is not None):
                masks.append((mask, region))
        if isinstance(self._method, Mannequin):
            self._method.start_frame()
        masked_px = 0
        if zones is not None:
            for mask in zones.always:
                self._zone_method.paint(picture, mask)
            masked_px = zones.always_px
        for mask, region in masks:
            self._method.paint(picture, mask, region)
            masked_px += mask.area_px()
        if settings.outline:
            for mask, _ in masks:
                draw_outline(picture, mask)
        if isinstance(self._method, Mannequin):
            draw_mark(picture)
        count = len(masks) + (len(zones.always) if zones is not None else 0)
        return min(1.0, masked_px / (picture.width_px * picture.height_px)), count

    def _zones_for(self, picture: Picture) -> ZoneMasks | None:
        """The zones at the size of this picture, drawn when that size is first seen."""
        if not self._settings.zones:
            return None
        key = (picture.width_px, picture.height_px, picture_step_px(picture))
        if key not in self._zones:
            self._zones = {key: zone_masks(self._settings.zones, *key)}
        return self._zones[key]


def _method(settings: MaskSettings) -> Method:
    if settings.method == "pixelate":
        return Pixelate(settings.blocks)
    if settings.method == "blur":
        return Blur(settings.blocks)
    if settings.method == "solid":
        return Solid(settings.color)
    if settings.method == "swap":
        return Mannequin(settings.blocks)
    if settings.method == "image" and settings.image is not None:
        return Overlay(settings.image, settings.blocks)
    raise UsageError(f"method {settings.method} without a picture", "name the picture that goes over faces")


def _check(settings: MaskSettings) -> None:
    """Refuse settings under which a mask would not hide a face."""
    scale, blocks = settings.mask_scale, settings.blocks
    if not (math.isfinite(scale) and 1.0 <= scale <= MAX_MASK_SCALE):
        raise UsageError(f"mask scale {scale}", f"give a number from 1 to {MAX_MASK_SCALE:g}; 1.3 is usual")
    if not 1 <= blocks <= MAX_BLOCKS:
        raise UsageError(f"{blocks} blocks across a face", f"give 1 to {MAX_BLOCKS}; more could be recognised")
    if len(settings.color) != 3 or not all(0 <= value <= 255 for value in settings.color):
        raise UsageError(f"colour {settings.color}", "give red, green and blue, 0 to 255 each")
