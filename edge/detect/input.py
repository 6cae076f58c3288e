"""Detector input straight from the planes of a picture: nothing of full size is converted or copied."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from edge.detect.placement import Placement
from edge.types import Picture, UInt8

PAD_VALUE = 0       # what the networks pad their own borders with
_MAX_BUFFERS = 64
_TO_RGB = {"bgr": cv2.COLOR_BGR2RGB, "bgra": cv2.COLOR_BGRA2RGB, "gray": cv2.COLOR_GRAY2RGB}

Samples = npt.NDArray[Any]


class InputBuilder:
    """Makes RGB inputs of several sizes from one picture. Thread-safe; each thread has buffers of its own.

    What `build` returns is overwritten by the next call of the same thread.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def build(self, picture: Picture, placements: Sequence[Placement]) -> list[UInt8]:
        """For each placement a uint8 (1, height, width, 3) RGB picture, padded at the right and the bottom.

        Each is scaled down from the next larger one, so that the full picture is read once.
        """
        inputs: dict[Placement, UInt8] = {}
        planes: tuple[Samples, ...] = tuple(plane.samples for plane in picture.planes)
        for placement in sorted(set(placements), key=lambda each: -each.content_width_px * each.content_height_px):
            planes = tuple(
                self._scaled(samples, placement, 2 if role and picture.layout == "nv12" else 1, role)
                for role, samples in enumerate(planes)
            )
            inputs[placement] = self._rgb(picture, planes, placement)
        return [inputs[placement] for placement in placements]

    def _scaled(self, samples: Samples, placement: Placement, step: int, role: int) -> Samples:
        wanted = (placement.content_width_px // step, placement.content_height_px // step)
        height, width = samples.shape[:2]
        # Halving averages four samples and is fast; what is left is less than a factor of two, where bilinear
        # interpolation misses nothing. Averaging over odd windows (INTER_AREA) takes three times as long.
        halvings = 0
        while width >= 2 * wanted[0] and height >= 2 * wanted[1]:
            width, height, halvings = width // 2, height // 2, halvings + 1
            buffer = self._buffer(("halved", role, width, height), (height, width, *samples.shape[2:]), samples.dtype)
            even = samples[: 2 * height, : 2 * width]
            samples = cv2.resize(even, (width, height), dst=buffer, interpolation=cv2.INTER_AREA)
        if (width, height) == wanted:
            return samples
        buffer = self._buffer(("scaled", role, *wanted), (wanted[1], wanted[0], *samples.shape[2:]), samples.dtype)
        return cv2.resize(samples, wanted, dst=buffer, interpolation=cv2.INTER_LINEAR)

    def _rgb(self, picture: Picture, planes: tuple[Samples, ...], placement: Placement) -> UInt8:
        shape = (placement.height_px, placement.width_px, 3)
        canvas = self._buffer(("canvas", placement), shape, np.dtype(np.uint8))
        content = canvas[: placement.content_height_px, : placement.content_width_px]
        first = planes[0]
        if first.dtype == np.uint16:
            first = cv2.convertScaleAbs(first, alpha=1 / 257)
        if picture.layout == "nv12":
            chroma = planes[1]
            if picture.full_range:
                first, chroma = _limited(first, 219), _limited(chroma, 224)
            cv2.cvtColorTwoPlane(first, chroma, cv2.COLOR_YUV2RGB_NV12, dst=content)
        else:
            cv2.cvtColor(first, _TO_RGB[picture.layout], dst=content)
        return canvas[None].view(np.uint8)

    def _buffer(self, key: tuple[object, ...], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Samples:
        buffers: dict[tuple[object, ...], Samples] = self._local.__dict__.setdefault("buffers", {})
        buffer = buffers.get(key)
        if buffer is None or buffer.shape != shape or buffer.dtype != dtype:
            if len(buffers) >= _MAX_BUFFERS:        # a folder of pictures, each of another size
                buffers.clear()
            buffer = buffers[key] = np.full(shape, PAD_VALUE, dtype)
        return buffer


def _limited(samples: Samples, span: int) -> Samples:
    """Full-range samples as BT.601 limited range: 16 to 235 for luma (span 219), 16 to 240 for chroma (span 224)."""
    offset = 16 if span == 219 else 16 + (224 - span) / 2
    return cv2.convertScaleAbs(samples, alpha=span / 255, beta=offset)
