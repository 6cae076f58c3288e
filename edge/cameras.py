"""What one camera of the daemon is, as frozen values: its source, how it is anonymised, where and when it records."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from edge.settings import OnDoubt, PixelFormat, RunSettings


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Where a secret is, never the secret: see `edge.secrets`.

    kind: ``credential`` (a file of that name in systemd's ``$CREDENTIALS_DIRECTORY``), ``environment`` (a variable) or
    ``file`` (absolute path, mode 0600 or stricter).
    """

    kind: Literal["credential", "environment", "file"]
    name: str


@dataclass(frozen=True, slots=True)
class RtspSource:
    """An RTSP address without user and password. user: plain text or a reference; password: a reference."""

    url: str
    user: str | SecretRef | None = None
    password: SecretRef | None = None


@dataclass(frozen=True, slots=True)
class V4l2Source:
    """A USB camera. device: ``/dev/v4l/by-id/...`` (stays when it is plugged in elsewhere) or ``/dev/videoN``.

    width_px, height_px, frame_rate: None takes what the camera offers first.
    """

    device: Path
    format: PixelFormat = "auto"
    width_px: int | None = None
    height_px: int | None = None
    frame_rate: float | None = None


@dataclass(frozen=True, slots=True)
class CsiSource:
    """A sensor on the board's camera connector, through Argus (``nvarguscamerasrc``)."""

    sensor_id: int
    width_px: int = 1920
    height_px: int = 1080
    frame_rate: float = 30.0


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file played in real time, over and over where `loop`; for tests and trials."""

    path: Path
    loop: bool = True


@dataclass(frozen=True, slots=True)
class CustomSource:
    """A GStreamer description that ends in raw or coded video. Only source, parser, depayloader, demuxer and converter
    elements are allowed; nothing that writes, listens or runs programs (`edge.video.custom`)."""

    description: str


CameraSource = RtspSource | V4l2Source | CsiSource | FileSource | CustomSource


@dataclass(frozen=True, slots=True)
class Retention:
    """What may be deleted and what must stay free. None: no limit.

    max_age_s: segments that ended longer ago are deleted. max_bytes: of this camera's segments and sidecars.
    min_free_bytes: the disk floor: recording pauses before free space of the file system falls under it.
    """

    max_age_s: float | None = 7 * 86400.0
    max_bytes: int | None = None
    min_free_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """Where and in which pieces. directory: the root; segments go to ``<root>/<camera>/<date>/``.

    segment_s: a new segment starts at this length. snapshot_interval_s: a masked JPEG this often, or None.
    """

    directory: Path = Path("/var/lib/edge/recordings")
    segment_s: float = 300.0
    snapshot_interval_s: float | None = None
    retention: Retention = field(default_factory=Retention)


@dataclass(frozen=True, slots=True)
class Period:
    """A time of the week in which a camera records, local time. days: 0 is Monday. Minutes of the day, end exclusive;
    an end before the start means the next morning."""

    days: tuple[int, ...]
    start_min: int
    end_min: int


@dataclass(frozen=True, slots=True)
class CameraSettings:
    """One camera. name: ``[A-Za-z0-9_-]{1,64}``. run: as for `edge-run`. schedule: empty records always.

    config_sha256: of this camera's settings, hexadecimal.
    """

    name: str
    source: CameraSource
    run: RunSettings = field(default_factory=RunSettings)
    recording: RecordingSettings = field(default_factory=RecordingSettings)
    on_doubt: OnDoubt = "redact"
    schedule: tuple[Period, ...] = ()
    config_sha256: str = ""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The whole configuration. runtime_dir: sockets, status and health; metrics_port: on 127.0.0.1, None for none."""

    cameras: tuple[CameraSettings, ...]
    runtime_dir: Path = Path("/run/edge")
    models_dir: Path | None = None
    metrics_port: int | None = 9478
    config_sha256: str = ""
