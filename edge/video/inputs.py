"""What a user names as input: a file, an RTSP address or a camera. Credentials never reach a message."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from edge.cameras import CameraSource, CsiSource, CustomSource, FileSource, RtspSource, V4l2Source
from edge.errors import InputError

Kind = Literal["file", "rtsp", "v4l2", "csi", "custom"]


@dataclass(frozen=True, slots=True)
class Input:
    """One parsed input. name: for messages and logs. location: path, device or address without user and password.

    camera: what else is to be asked of a camera that is not reached over RTSP.
    """

    kind: Kind
    name: str
    location: str
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    camera: V4l2Source | CsiSource | CustomSource | None = None

    @property
    def live(self) -> bool:
        """Comes in real time and has no end of its own."""
        return self.kind != "file"


def parse_spec(spec: str) -> Input:
    """Understand `spec`. Raises InputError: not there, unreadable, empty, or a scheme that is not supported."""
    scheme = spec.partition("://")[0].lower() if "://" in spec else ""
    if scheme in ("rtsp", "rtsps"):
        return _parse_rtsp(spec)
    if scheme == "file":
        spec = unquote(urlsplit(spec).path)
    elif scheme:
        raise InputError(f"{scheme}:// is not supported", "give a file, rtsp:// or /dev/video*")
    path = Path(spec)
    try:
        mode = path.stat()
    except OSError as error:
        raise InputError(f"{spec}: {os.strerror(error.errno or 0)}", "check the name") from None
    if stat.S_ISCHR(mode.st_mode):
        if not path.resolve().name.startswith("video"):
            raise InputError(f"{spec}: not a camera", "give /dev/video*")
        return Input("v4l2", spec, spec, camera=V4l2Source(path))
    if stat.S_ISDIR(mode.st_mode):
        raise InputError(f"{spec}: a directory, not a video")
    if not stat.S_ISREG(mode.st_mode):      # opening a pipe would wait for its other end
        raise InputError(f"{spec}: not a regular file", "give a file, rtsp:// or /dev/video*")
    if mode.st_size == 0:
        raise InputError(f"{spec}: empty file")
    if not os.access(path, os.R_OK):
        raise InputError(f"{spec}: permission denied", "check who may read it")
    return Input("file", spec, str(path))


def input_of(source: CameraSource, user: str = "", password: str = "") -> Input:
    """The input for a camera of the daemon. user, password: for RTSP. Raises InputError as `parse_spec` does."""
    if isinstance(source, RtspSource):
        return replace(_parse_rtsp(source.url), user=user, password=password)
    if isinstance(source, V4l2Source):      # may be plugged in later
        return Input("v4l2", str(source.device), str(source.device), camera=source)
    if isinstance(source, CsiSource):
        return Input("csi", f"CSI sensor {source.sensor_id}", str(source.sensor_id), camera=source)
    if isinstance(source, FileSource):
        return parse_spec(str(source.path))
    return Input("custom", "custom source", "", camera=source)


def _parse_rtsp(spec: str) -> Input:
    try:
        parts = urlsplit(spec)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InputError("the RTSP address is malformed", "write rtsp://host:port/path") from None
    if not host:
        raise InputError("the RTSP address has no host", "write rtsp://host:port/path")
    where = f"[{host}]" if ":" in host else host
    where += f":{port}" if port else ""
    location = urlunsplit((parts.scheme.lower(), where, parts.path, parts.query, ""))
    name = urlunsplit((parts.scheme.lower(), where, parts.path, "", ""))      # a query may carry a token
    return Input("rtsp", name, location, unquote(parts.username or ""), unquote(parts.password or ""))
