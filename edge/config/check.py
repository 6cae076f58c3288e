"""Whether this machine can do what a configuration asks, without starting it: ``edge-daemon --check``.

Contacts no camera, fetches nothing, and forgets every secret that it looked up.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from edge.cameras import CameraSettings, FileSource, RecordingSettings, ServiceSettings, V4l2Source
from edge.doctor.finding import Finding
from edge.errors import EdgeError

_TRIAL_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Problem:
    """level: ``error`` when recording cannot work as configured, ``warning`` when it works worse or will stop.

    where: camera, directory or section.
    """

    level: Literal["warning", "error"]
    where: str
    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.text}" + (f"; {self.remedy}" if self.remedy else "")


def check_service(settings: ServiceSettings) -> list[Problem]:
    """All problems: models, engines, credentials, directories, then camera by camera."""
    from edge.doctor.credentials import check_credentials
    from edge.doctor.inference import check_engines, check_models

    doctors: dict[str, Callable[[ServiceSettings], list[Finding]]] = {
        "models": check_models, "engines": check_engines, "credentials": check_credentials
    }  # fmt: skip
    # Who names TensorRT gets no other runtime: what the doctor says about a required GPU holds for it, too.
    asked = replace(settings, cameras=tuple(map(_with_what_it_requires, settings.cameras)))
    problems: list[Problem] = []
    for where, check in doctors.items():
        try:
            problems += _from_doctor(where, check(asked))
        except EdgeError as error:
            problems.append(Problem("error", where, error.message, error.remedy))
    problems += _directories(settings)
    for camera in settings.cameras:
        problems += _model(camera)
        problems += _camera(camera)
    problems += _twice(settings)
    problems += _port(settings.metrics_port)
    return list(dict.fromkeys(problems))


def _with_what_it_requires(camera: CameraSettings) -> CameraSettings:
    detect = camera.run.detect
    required = detect.require_gpu or detect.backend == "tensorrt"
    return replace(camera, run=replace(camera.run, detect=replace(detect, require_gpu=required)))


def _from_doctor(where: str, findings: Iterable[Finding]) -> Iterator[Problem]:
    for finding in findings:
        if finding.level in ("warning", "error"):
            yield Problem("error" if finding.level == "error" else "warning", where, finding.text, finding.remedy)


def _directories(settings: ServiceSettings) -> Iterator[Problem]:
    from edge.doctor.disks import check_root

    roots: dict[Path, list[RecordingSettings]] = defaultdict(list)
    for camera in settings.cameras:
        roots[camera.recording.directory].append(camera.recording)
    for root, users in roots.items():
        found = list(_from_doctor("recordings", check_root(root, users, _TRIAL_BYTES)))
        yield from found
        if any(problem.level == "error" for problem in found):
            continue
        facts = os.statvfs(root)
        total, floor = facts.f_blocks * facts.f_frsize, max(each.retention.min_free_bytes for each in users)
        limits = [each.retention.max_bytes for each in users]
        wanted = sum(limit or 0 for limit in limits) + floor
        if wanted > total and any(limits):
            text = f"{root}: max_size of all cameras and disk_floor are {wanted / 1e9:.1f} GB, the disk has " \
                   f"{total / 1e9:.1f} GB; the floor decides"  # fmt: skip
            yield Problem("warning", "recordings", text, "choose a smaller retention.max_size")
        if all(each.retention.max_age_s is None and each.retention.max_bytes is None for each in users):
            yield Problem("warning", "recordings", f"{root}: nothing is ever deleted; recording pauses when it is full",
                          "set retention.max_age or retention.max_size")  # fmt: skip


def _model(camera: CameraSettings) -> Iterator[Problem]:
    """A model given as a file that is there: whether it is a face detector. Others are known by their hash."""
    from edge.models.choose import identify

    path = Path(camera.run.detect.model)
    if path.is_absolute() and path.is_file():
        try:
            identify(path)
        except EdgeError as error:
            yield Problem("error", camera.name, error.message, error.remedy)


def _camera(camera: CameraSettings) -> Iterator[Problem]:
    source, mask = camera.source, camera.run.mask
    if isinstance(source, FileSource) and (reason := _unreadable(source.path)):
        yield Problem("error", camera.name, f"{source.path}: {reason}", "name a video that this user may read")
    if isinstance(source, V4l2Source):
        if not source.device.exists():
            yield Problem("warning", camera.name, f"{source.device} is not there now", "plug it in; ls /dev/v4l/by-id")
        elif not os.access(source.device, os.R_OK | os.W_OK):
            yield Problem("error", camera.name, f"{source.device}: may not be opened by this user",
                          "put the service's user into the group video")  # fmt: skip
    if mask.method == "image" and mask.image is not None:
        from edge.anonymize.overlay import Overlay

        try:
            Overlay(mask.image, mask.blocks)
        except EdgeError as error:
            yield Problem("error", camera.name, error.message, error.remedy)


def _unreadable(path: Path) -> str:
    try:
        if not path.is_file():
            return "is not a file" if path.exists() else "there is no such file"
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return error.strerror or "cannot be read"
    return ""


def _twice(settings: ServiceSettings) -> Iterator[Problem]:
    first: dict[object, str] = {}
    for camera in settings.cameras:
        other = first.setdefault(camera.source, camera.name)
        if other != camera.name:
            yield Problem("warning", camera.name, f"has the same source as {other}", "give each camera its own")


def _port(port: int | None) -> Iterator[Problem]:
    if port is None:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                yield Problem("warning", "service.metrics_port", f"port {port} is taken",
                              "nothing to do if the daemon runs now; else choose another port")  # fmt: skip
            else:
                yield Problem("error", "service.metrics_port", f"port {port}: {error.strerror}", "choose another port")
