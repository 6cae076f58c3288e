"""The camera process: one camera's source, masks and recordings. See `edge.camera.process`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edge.cameras import CameraSettings


@dataclass(frozen=True, slots=True)
class CameraProcessSettings:
    """First message to the process. inference_socket: where the inference process listens."""

    camera: CameraSettings
    inference_socket: Path
