"""Time to mask faces in one frame: ``python -m tests.bench.masks``. Processor time of the thread, best of many runs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from edge.anonymize.gate import Anonymizer
from edge.settings import MaskSettings, Method, Shape
from edge.swap.pose import front_in_box
from edge.types import Frame, Picture, Plane, Region

_ROUNDS, _REPEAT = 30, 20


def nv12(width: int, height: int) -> Picture:
    random = np.random.default_rng(0)
    luma = random.integers(16, 236, (height, width), np.uint8)
    chroma = random.integers(16, 240, (height // 2, width // 2, 2), np.uint8)
    return Picture(width, height, "nv12", (Plane(luma), Plane(chroma, 2, 2)))


def best_us(work: Callable[[], object]) -> float:
    """Microseconds of processor time per call."""
    times = []
    for _ in range(_ROUNDS):
        started_ns = time.thread_time_ns()
        for _ in range(_REPEAT):
            work()
        times.append((time.thread_time_ns() - started_ns) / _REPEAT / 1000)
    return min(times)


def faces(count: int, side: int, width: int) -> list[Region]:
    """Faces that move by less than a pixel, so that their boxes are not whole numbers."""
    step = (width - side) / max(count, 1)
    boxes = [(20.3 + step * i, 120.4, 20.3 + step * i + side, 120.4 + side) for i in range(count)]
    return [Region(box, number + 1, "detected", tuple((x, y) for x, y in front_in_box(box).tolist()))
            for number, box in enumerate(boxes)]  # fmt: skip


def main() -> None:
    cv2.setNumThreads(1)
    small, large = (Frame("bench", 0, 0, nv12(*size), 0, 0) for size in ((640, 360), (1920, 1080)))
    print(f"{'us per frame':22}{'640x360, 1 x 100 px':>21}{'1080p, 10 x 150 px':>21}{'1080p, 1 x 700 px':>21}")
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "image.png"
        cv2.imwrite(str(image), np.full((300, 300, 4), 200, np.uint8))
        cases: list[tuple[Method, Shape]] = [
            ("pixelate", "ellipse"),
            ("pixelate", "box"),
            ("blur", "ellipse"),
            ("solid", "ellipse"),
            ("image", "ellipse"),
            ("swap", "ellipse"),
        ]
        for method, shape in cases:
            anonymizer = Anonymizer(MaskSettings(method=method, shape=shape, image=image))
            row = [
                best_us(lambda frame=frame, regions=regions: anonymizer.apply(frame, regions))  # type: ignore[misc] # noqa: B023
                for frame, regions in (
                    (small, faces(1, 100, 640)), (large, faces(10, 150, 1920)), (large, faces(1, 700, 1920))
                )
            ]
            print(f"{method + ' ' + shape:22}" + "".join(f"{value:21.0f}" for value in row))
    print(f"{'':22}{'640x360, 1 x 60 px':>21}{'4 x 60 px':>21}{'16 x 60 px':>21}")
    for method in ("pixelate", "swap"):
        anonymizer = Anonymizer(MaskSettings(method=method))  # type: ignore[arg-type]
        row = []
        for count in (1, 4, 16):
            regions = faces(count, 60, 640)
            row.append(best_us(lambda regions=regions: anonymizer.apply(small, regions)))  # type: ignore[misc] # noqa: B023
        print(f"{method:22}" + "".join(f"{value:21.0f}" for value in row))
    anonymizer = Anonymizer(MaskSettings())
    print(f"{'whole frame':22}{best_us(lambda: anonymizer.redact(small, '')):21.0f}"
          f"{best_us(lambda: anonymizer.redact(large, '')):21.0f}")


if __name__ == "__main__":
    main()
