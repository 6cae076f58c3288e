"""Labelled photos as pictures of every layout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from edge.types import Layout, Picture, Plane

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A photo in BGR and its faces, (N, 4) x1 y1 x2 y2; `ignored` may be found or not."""

    name: str
    bgr: Array
    faces: Array
    ignored: Array


def labelled(shared_data: Path, kind: str, count: int) -> Iterator[Labelled]:
    """The first `count` photos of ``human``, ``consensus`` or ``landmarks``."""
    for row in json.loads((shared_data / f"photos/labels_eval_{kind}.json").read_text())[:count]:
        bgr = cv2.imread(str(shared_data / row["file"]))
        yield Labelled(row["file"], bgr, corners(row["boxes"]), corners(row["ignore"]))


def corners(boxes: list[list[float]]) -> Array:
    rows = np.asarray(boxes, np.float64).reshape(-1, 4)
    return np.concatenate([rows[:, :2], rows[:, :2] + rows[:, 2:]], axis=1)


def as_picture(bgr: Array, layout: Layout = "bgr", depth: int = 8) -> Picture:
    height, width = bgr.shape[:2]
    if layout == "nv12":
        return as_nv12(bgr)
    codes = {"bgr": None, "bgra": cv2.COLOR_BGR2BGRA, "gray": cv2.COLOR_BGR2GRAY}
    samples = bgr if codes[layout] is None else cv2.cvtColor(bgr, codes[layout])
    if depth == 16:
        samples = samples.astype(np.uint16) * 257
    return Picture(width, height, layout, (Plane(samples),))


def as_nv12(bgr: Array, full_range: bool = False) -> Picture:
    """BT.601; rows padded by 12 samples, as decoders do. Odd sizes repeat the last row and column for chroma."""
    height, width = bgr.shape[:2]
    even = cv2.copyMakeBorder(bgr, 0, height % 2, 0, width % 2, cv2.BORDER_REPLICATE)
    rows, columns = even.shape[:2]
    if full_range:
        planar = cv2.cvtColor(even, cv2.COLOR_BGR2YCrCb)
        luma = planar[:, :, 0]
        halves = cv2.resize(planar[:, :, 1:], (columns // 2, rows // 2), interpolation=cv2.INTER_AREA)[:, :, ::-1]
    else:
        flat = cv2.cvtColor(even, cv2.COLOR_BGR2YUV_I420).reshape(-1)
        luma = flat[: rows * columns].reshape(rows, columns)
        halves = flat[rows * columns :].reshape(2, rows // 2, columns // 2).transpose(1, 2, 0)
    planes = (Plane(padded(luma[:height, :width])), Plane(padded(halves), 2, 2))
    return Picture(width, height, "nv12", planes, full_range=full_range)


def padded(samples: Array) -> Array:
    memory = np.full((samples.shape[0], samples.shape[1] + 12, *samples.shape[2:]), 99, samples.dtype)
    memory[:, : samples.shape[1]] = samples
    return memory[:, : samples.shape[1]]


def overlaps(boxes: Array, others: Array) -> Array:
    """Intersection over union, (N, M)."""
    start = np.maximum(boxes[:, None, :2], others[None, :, :2])
    end = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared = np.clip(end - start, 0, None).prod(axis=2)
    areas = [(each[:, 2:] - each[:, :2]).prod(axis=1) for each in (boxes, others)]
    return shared / np.maximum(areas[0][:, None] + areas[1][None] - shared, 1e-9)
