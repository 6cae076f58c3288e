"""A configuration of RTSP cameras that show the sample, and what the real daemon makes of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.harness import sample
from tests.harness.campaign.oracle import Oracle
from tests.harness.rtspd import RtspServer
from tests.harness.service import Service

CONFIG = """
service:
  runtime_dir: {folder}/run
  metrics_port: null
defaults:
  stall_timeout: 3s
  look_ahead: 200ms
  detect: {{model: {model}, backend: onnxruntime, scales: [320]}}
  recording: {{directory: {folder}/recordings, segment: 4s}}
  retention: {{disk_floor: 1M}}
cameras:
{cameras}
"""
COMMAND = [sys.executable, "-m", "edge.cli.daemon", "--config"]


class Site:
    """A folder with a configuration of RTSP cameras that show the sample."""

    def __init__(self, folder: Path, model: Path, server: RtspServer) -> None:
        self.folder, self.config, self._model, self._server = folder, folder / "edge.yaml", model, server
        (folder / "recordings").mkdir()

    def configure(self, **cameras: str) -> None:
        """Name and further lines of each camera."""
        lines = "\n".join(f"  {name}:\n    source: {{rtsp: {{url: '{self._server.url('sample')}'}}}}\n    {more}"
                          for name, more in cameras.items())  # fmt: skip
        self.config.write_text(CONFIG.format(folder=self.folder, model=self._model, cameras=lines))

    def service(self, watchdog_s: float | None = None) -> Service:
        """The daemon with this configuration."""
        return Service([*COMMAND, str(self.config)], self.folder / "run", watchdog_s)

    def recordings(self, camera: str) -> list[Path]:
        """Its finished segments."""
        return sorted((self.folder / "recordings" / camera).rglob("*.mp4"))

    def leftovers(self) -> list[Path]:
        """Unfinished segments. A kill may leave the draft of a sidecar, which the keeper deletes when it is old."""
        return list((self.folder / "recordings").rglob("*.mp4.part"))

    def frames(self, camera: str) -> list[bool]:
        """Of all finished segments: whether a face can be recognised."""
        oracle = Oracle(sample.ensure())
        return [seen for path in self.recordings(camera) for _, seen in oracle.look(path)]

    def visible_faces(self, camera: str) -> int:
        """How many frames show one; there should be none."""
        return sum(self.frames(camera))


def written(camera: str, frames: int) -> Any:
    """A condition: the camera has written so many frames."""
    return lambda status: any(each.camera == camera and each.frames_out >= frames for each in status.cameras)
