"""Detector input straight from the planes of a picture: nothing of full size is converted or copied."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import cv2
import numpy as np

from edge.detect.placement import Placement
from edge.types import Picture, UInt8

PAD_VALUE = 0       # what the networks pad their own borders with


class InputBuilder:
    """Makes RGB inputs of several sizes from one picture. Thread-safe; each thread has buffers of its own.

    What `build` returns is overwritten by the next call of the same thread.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def build(self, picture: Picture, placements: Sequence[Placement]) -> list[UInt8]:
        """For each placement a uint8 (1, height, width, 3) RGB picture, padded at the right and the bottom.

        Scales down in steps from the largest, so that the full picture is read once.
        """
        inputs: dict[Placement, UInt8] = {}
        planes = tuple(plane.samples for plane in picture.planes)
        for placement in sorted(set(placements), key=lambda each: -each.content_width_px * each.content_height_px):
            planes = tuple(
                self._scaled(samples, placement, 2 if role and picture.layout == "nv12" else 1, role)
                for role, samples in enumerate(planes)
            )
            inputs[placement] = self._rgb(picture, planes, placement)
        return [inputs[placement] for placement in placements]

    def _scaled(self, samples: UInt8, placement: Placement, step: int, role: int) -> UInt8:
        size = (placement.content_width_px // step, placement.content_height_px // step)
        height, width = samples.shape[:2]
        if (width, height) == size:
            return samples
        # Halving averages four samples and is fast; what is left is less than a factor of two, where bilinear
        # interpolation misses nothing. Averaging over odd windows (INTER_AREA) takes three times as long.
        halvings = 0
        while width >= 2 * size[0] and height >= 2 * size[1]:
            width, height = width // 2, height // 2
            halved = self._buffer(("halved", role, halvings), (height, width, *samples.shape[2:]), samples.dtype)
            source = samples[: 2 * height, : 2 * width]
            samples = cv2.resize(source, (width, height), dst=halved, interpolation=cv2.INTER_AREA)
            halvings += 1
        if (width, height) == size:
            return samples
        scaled = self._buffer(("scaled", role, *size), (size[1], size[0], *samples.shape[2:]), samples.dtype)
        return cv2.resize(samples, size, dst=scaled, interpolation=cv2.INTER_LINEAR)

    def _rgb(self, picture: Picture, planes: tuple[UInt8, ...], placement: Placement) -> UInt8:
        shape = (placement.height_px, placement.width_px, 3)
        canvas = self._buffer(("canvas", placement), shape, np.dtype(np.uint8))
        content = canvas[: placement.content_height_px, : placement.content_width_px]
        samples = planes[0]
        if samples.dtype == np.uint16:
            planes = (cv2.convertScaleAbs(samples, alpha=1 / 257),)
        if picture.layout == "nv12":
            luma, chroma = planes
            if picture.full_range:
                luma, chroma = _limited(luma, 219), _limited(chroma, 224)
            cv2.cvtColorTwoPlane(luma, chroma, cv2.COLOR_YUV2RGB_NV12, dst=content)
        elif picture.layout == "gray":
            cv2.cvtColor(planes[0], cv2.COLOR_GRAY2RGB, dst=content)
        else:
            cv2.cvtColor(planes[0], cv2.COLOR_BGRA2RGB if picture.layout == "bgra" else cv2.COLOR_BGR2RGB, dst=content)
        return canvas[None]

    def _buffer(self, key: tuple[object, ...], shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> UInt8:
        buffers: dict[tuple[object, ...], UInt8] = self._local.__dict__.setdefault("buffers", {})
        buffer = buffers.get(key)
        if buffer is None or buffer.shape != shape or buffer.dtype != dtype:
            buffer = buffers[key] = np.full(shape, PAD_VALUE, dtype)
        return buffer


def _limited(samples: UInt8, span: int) -> UInt8:
    """Full-range samples as BT.601 limited range: 16 to 235 for luma (span 219), 16 to 240 for chroma (span 224)."""
    offset = 16 if span == 219 else 16 + (224 - span) / 2
    return cv2.convertScaleAbs(samples, alpha=span / 255, beta=offset)
