"""Which processes a configuration asks for, and what each of them is told."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.cameras import ServiceSettings
from edge.reports import CameraReport, InferenceReport, KeeperReport


@dataclass(frozen=True, slots=True)
class Modules:
    """What runs as which process; tests put others in."""

    camera: str = "edge.camera"
    inference: str = "edge.inference.server"
    keeper: str = "edge.recordings.keeper"


@dataclass(frozen=True, slots=True)
class Plan:
    """One process. Equal plans need no restart.

    name: camera name, ``inference`` or ``keeper``. report_type: what it reports. settings: its first message.
    fixed: what a running process cannot change; while this stays the same, new settings are sent to it instead.
    descriptors: it inherits. stall_timeout_s: how long its source may give nothing.
    """

    name: str
    module: str
    report_type: type[CameraReport] | type[InferenceReport] | type[KeeperReport]
    settings: Any
    fixed: Any
    descriptors: tuple[int, ...] = ()
    stall_timeout_s: float = 0.0

    @property
    def is_camera(self) -> bool:
        """Whether it is a camera, of which there may be many."""
        return self.report_type is CameraReport


def make_plans(
    modules: Modules, listener: socket.socket, socket_path: Path, settings: ServiceSettings
) -> Iterator[Plan]:
    """All processes of a configuration, in the order in which they are started."""
    # They load nothing heavy themselves, but --help should not wait for them.
    from edge.camera import CameraProcessSettings
    from edge.inference.server import ServerSettings
    from edge.recordings.settings import KeeperSettings

    cameras = settings.cameras
    server = ServerSettings(listener.fileno(), settings.models_dir,
                            tuple(dict.fromkeys(camera.run.detect for camera in cameras)))  # fmt: skip
    yield Plan("inference", modules.inference, InferenceReport, server, settings.models_dir, (listener.fileno(),))
    disks = tuple((camera.name, camera.recording) for camera in cameras)
    yield Plan("keeper", modules.keeper, KeeperReport, KeeperSettings(cameras), disks)
    for camera in cameras:
        yield Plan(camera.name, modules.camera, CameraReport, CameraProcessSettings(camera, socket_path), camera,
                   stall_timeout_s=camera.run.source.stall_timeout_s)  # fmt: skip
