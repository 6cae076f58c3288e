"""Which scales look at which frame, and where the scene changes."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from edge.types import Picture, UInt8

THUMBNAIL_PX = (32, 18)
CUT_MEAN_DIFFERENCE = 24.0      # of 255, per sample of the thumbnail


class ScanSchedule:
    """The smallest scale sees every frame; larger ones take turns.

    Each larger scale looks at least once in `interval_s` of video, at evenly spread moments, so that work per frame
    varies little. All scales look at the first frame, after a cut, when time does not advance, and at every frame when
    frames are `interval_s` or more apart.

    scales: ascending, at least one. interval_s: 0 means every scale on every frame.
    """

    def __init__(self, scales: Sequence[int], interval_s: float) -> None:
        if not scales:
            raise ValueError("no scales")
        self._scales = tuple(sorted(set(scales)))
        self._interval_s = interval_s
        self._due_s: dict[int, float] = {}
        self._last_s: float | None = None

    def next(self, pts_s: float, cut: bool = False) -> tuple[int, ...]:
        """Scales for the frame at `pts_s`, ascending."""
        last, self._last_s = self._last_s, pts_s
        larger = self._scales[1:]
        step_s = 0.0 if last is None else pts_s - last
        if cut or step_s <= 0 or step_s >= self._interval_s:
            # The next turns are spread over the interval: the first of n comes after 1/n of it, the last after all.
            for place, scale in enumerate(larger):
                self._due_s[scale] = pts_s + self._interval_s * (place + 1) / len(larger)
            return self._scales
        chosen = [self._scales[0]]
        for scale in larger:
            # A turn that would come due before the next frame (taken to be as far away as the last) is taken now.
            if self._due_s[scale] < pts_s + step_s - 1e-6:
                chosen.append(scale)
                self._due_s[scale] = pts_s + self._interval_s
        return tuple(chosen)


class CutDetector:
    """Compares each picture with the one before it."""

    def __init__(self) -> None:
        self._previous: UInt8 | None = None

    def is_cut(self, picture: Picture) -> bool:
        """Whether `picture` shows another scene than the picture of the last call; False on the first."""
        previous, self._previous = self._previous, thumbnail(picture)
        return previous is not None and is_cut(previous, self._previous)


def is_cut(previous: UInt8, current: UInt8) -> bool:
    """Whether two thumbnails show different scenes.

    The mean is taken out first, so that a flash or a fade is no cut.
    """
    difference = current.astype(np.float32) - previous
    return bool(np.abs(difference - difference.mean()).mean() > CUT_MEAN_DIFFERENCE)


def thumbnail(picture: Picture) -> UInt8:
    """Luma, or the colours as they are, as uint8 (18, 32) or (18, 32, C), from a grid of samples, not from all."""
    samples = picture.planes[0].samples
    step_y = max(1, samples.shape[0] // (4 * THUMBNAIL_PX[1]))
    step_x = max(1, samples.shape[1] // (4 * THUMBNAIL_PX[0]))
    grid = np.ascontiguousarray(samples[::step_y, ::step_x])
    if grid.dtype == np.uint16:
        grid = (grid >> 8).astype(np.uint8)
    return cv2.resize(grid, THUMBNAIL_PX, interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)
