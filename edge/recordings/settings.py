"""What the keeper is told first. Not in `keeper`, which runs as ``__main__`` and would have this class twice."""

from __future__ import annotations

from dataclasses import dataclass

from edge.cameras import CameraSettings


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    """All cameras of the service; the keeper looks after the directories that they record into."""

    cameras: tuple[CameraSettings, ...]
