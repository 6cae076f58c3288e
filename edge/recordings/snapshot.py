"""A masked JPEG of the camera now and then, from safe frames only."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from edge.anonymize.gate import SafeFrame
from edge.types import UInt8

NAME = "snapshot.jpg"
QUALITY = 85


class Snapshot:
    """The planes of a safe frame, copied: its memory belongs to the encoder from then on."""

    def __init__(self, safe: SafeFrame) -> None:
        planes = safe.picture.planes
        self._luma, self._chroma = (np.array(each.samples, np.uint8) for each in planes)

    def jpeg(self) -> bytes:
        """As JPEG. Takes some milliseconds, unlike making this object."""
        # As BT.601 of limited range, whatever the stream says: colours may be off a little in a picture to glance at.
        bgr: UInt8 = np.asarray(cv2.cvtColorTwoPlane(self._luma, self._chroma, cv2.COLOR_YUV2BGR_NV12), np.uint8)
        ok, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        if not ok:
            raise ValueError("the picture could not be coded")
        return data.tobytes()


def snapshot_path(folder: Path) -> Path:
    """Where the newest snapshot of a camera is; folder: ``<root>/<camera>``."""
    return folder / NAME
