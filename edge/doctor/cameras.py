"""Cameras that are plugged into this machine, and files that stand for cameras."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from edge.cameras import CsiSource, FileSource, ServiceSettings, V4l2Source
from edge.doctor.finding import Finding

ARGUS_SOCKET = Path("/tmp/argus_socket")
# linux/videodev2.h: struct v4l2_capability has 104 bytes, v4l2_fmtdesc 64.
_VIDIOC_QUERYCAP, _VIDIOC_ENUM_FMT = 0x80685600, 0xC0405602
_CAP_VIDEO_CAPTURE, _CAP_DEVICE_CAPS, _BUF_TYPE_CAPTURE = 0x1, 0x80000000, 1
_FOURCC = {"mjpeg": {"MJPG", "JPEG"}, "yuyv": {"YUYV"}, "nv12": {"NV12", "NM12"}, "h264": {"H264"}}


@dataclass(frozen=True, slots=True)
class Capture:
    """A device that gives pictures. formats: four-character codes."""

    name: str
    formats: tuple[str, ...]


def check_local_cameras(
    settings: ServiceSettings, devices: Path = Path("/dev"), argus: Path = ARGUS_SOCKET
) -> list[Finding]:
    """All V4L2 capture devices; then each configured camera that is no RTSP camera."""
    findings = []
    for node in sorted(devices.glob("video[0-9]*")):
        found = probe(node)
        if isinstance(found, Capture):
            findings.append(Finding("ok", f"{_stable_name(node, devices)}: {found.name}, {' '.join(found.formats)}"))
    for camera in settings.cameras:
        source = camera.source
        if isinstance(source, V4l2Source):
            findings.append(_configured(camera.name, source))
        elif isinstance(source, CsiSource):
            findings.append(_argus(camera.name, argus))
        elif isinstance(source, FileSource) and not os.access(source.path, os.R_OK):
            findings.append(Finding("error", f"{camera.name}: {source.path} cannot be read", "check path and rights"))
    return findings or [Finding("info", "none is plugged in, and none is configured")]


def probe(node: Path) -> Capture | OSError | None:
    """What a device node is; None when it gives no pictures (metadata, codecs)."""
    try:
        descriptor = os.open(node, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return error
    try:
        answer = bytearray(104)
        fcntl.ioctl(descriptor, _VIDIOC_QUERYCAP, answer)
        *_, capabilities, device_capabilities = struct.unpack_from("<3I", answer, 80)
        if not (device_capabilities if capabilities & _CAP_DEVICE_CAPS else capabilities) & _CAP_VIDEO_CAPTURE:
            return None
        name = bytes(answer[16:48]).split(b"\0")[0].decode(errors="replace")
        return Capture(name, _formats(descriptor))
    except OSError as error:
        return None if error.errno in (errno.ENOTTY, errno.EINVAL) else error
    finally:
        os.close(descriptor)


def _formats(descriptor: int) -> tuple[str, ...]:
    found = []
    with contextlib.suppress(OSError):  # EINVAL after the last
        for index in range(64):
            answer = bytearray(struct.pack("<2I", index, _BUF_TYPE_CAPTURE).ljust(64, b"\0"))
            fcntl.ioctl(descriptor, _VIDIOC_ENUM_FMT, answer)
            found.append(bytes(answer[44:48]).decode("ascii", "replace").strip())
    return tuple(found)


def _stable_name(node: Path, devices: Path) -> str:
    """The name by which it is found again after it was plugged in elsewhere."""
    links = sorted((devices / "v4l" / "by-id").glob("*"))
    return next((str(link) for link in links if link.resolve() == node), str(node))


def _configured(name: str, source: V4l2Source) -> Finding:
    found = probe(source.device)
    if isinstance(found, FileNotFoundError):
        return Finding("error", f"{name}: {source.device} is not there", "plug it in, or name one that is listed above")
    if isinstance(found, PermissionError):
        return Finding("error", f"{name}: no access to {source.device}", "see the findings on rights")
    if isinstance(found, OSError):
        busy = found.errno == errno.EBUSY  # by the daemon itself, for one
        reason = os.strerror(found.errno) if found.errno else "unknown"
        return Finding(
            "info" if busy else "error", f"{name}: {source.device}: {reason}", "" if busy else "plug it in again"
        )
    if found is None:
        return Finding("error", f"{name}: {source.device} gives no pictures", "name the camera's first device")
    if source.format != "auto" and not _FOURCC[source.format] & set(found.formats):
        return Finding(
            "error",
            f"{name}: {source.device} has no {source.format}, only {' '.join(found.formats)}",
            "use format: auto, or one of these",
        )
    return Finding("ok", f"{name}: {source.device} can be opened")


def _argus(name: str, path: Path) -> Finding:
    """Argus' daemon listens on a socket in /tmp, which PrivateTmp hides."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        try:
            connection.connect(str(path))
        except FileNotFoundError:
            return Finding(
                "error",
                f"{name}: {path} is not there",
                "systemctl start nvargus-daemon; in the service, install share/edge/systemd/csi.conf",
            )
        except OSError as error:
            return Finding(
                "error", f"{name}: {path}: {error.strerror or 'no answer'}", "systemctl restart nvargus-daemon"
            )
    return Finding("ok", f"{name}: Argus answers")
