"""Whether an engine on disk is ours, whole, and for this machine; and which command mends it when it is not (P10)."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from edge.device import Device
from edge.engines.manifest import SCHEMA_VERSION, EngineBackend, Manifest
from edge.errors import ConfigError

SYSTEM_DIRECTORY = Path("/var/lib/edge/engines")
LARGEST_MANIFEST_BYTES = 1 << 20


def default_engine_dir() -> Path:
    """The service's directory where it can be read (and is ours to use), else the user's own under ``~/.cache``."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edge" / "engines"
    if os.access(SYSTEM_DIRECTORY, os.W_OK | os.X_OK):
        return SYSTEM_DIRECTORY
    if os.access(SYSTEM_DIRECTORY, os.R_OK | os.X_OK) and not user.is_dir():
        return SYSTEM_DIRECTORY
    return user


@dataclass(frozen=True, slots=True)
class StoredEngine:
    """A manifest that was read and the directory that it lies in."""

    directory: Path
    manifest: Manifest

    @property
    def path(self) -> Path:
        """The payload."""
        return self.directory / self.manifest.engine

    @property
    def rebuild(self) -> str:
        """The command that makes this engine anew."""
        return rebuild_command(self.directory, self.manifest.model, self.manifest.backend)


def rebuild_command(directory: Path, model: str, backend: EngineBackend) -> str:
    """How to build the engines of a model on this machine."""
    place = "" if directory == default_engine_dir() else f" --engine-dir {directory}"
    return f"edge-build --int8 --model {model} --backend {backend}{place}"


def check_identity(
    stored: StoredEngine, device: Device, model_sha256: str | None = None, description_sha256: str | None = None
) -> None:
    """Whether an engine is for this machine and this model; reads no payload. Raises ConfigError."""
    manifest = stored.manifest
    pairs: list[tuple[str, str | None, str | None]] = [("processor architecture", manifest.machine, device.machine)]
    if manifest.backend == "tensorrt":
        pairs += [
            ("TensorRT", manifest.tensorrt, device.tensorrt),
            ("GPU compute capability", manifest.compute_capability, device.compute_capability),
            ("device", manifest.device, device.name),
            ("CUDA", manifest.cuda, device.cuda),
        ]
    for what, built, here in pairs:
        if built != here:
            raise ConfigError(
                f"{stored.path}: was built for {what} {built or 'unknown'}, this machine has {here or 'none'}",
                f"run: {stored.rebuild}",
            )
    if model_sha256 is not None and model_sha256 != manifest.model_sha256:
        raise ConfigError(
            f"{stored.path}: was built from another file of {manifest.model} (sha256 {manifest.model_sha256[:12]}…, "
            f"now {model_sha256[:12]}…)",
            f"run: {stored.rebuild}",
        )
    if description_sha256 is not None and description_sha256 != manifest.description_sha256:
        raise ConfigError(
            f"{stored.path}: was built when {manifest.model} was described otherwise (configs/models)",
            f"run: {stored.rebuild}",
        )


def check_directory(directory: Path, rebuild: str) -> None:
    """Refuse a directory in which others could place or swap an engine. Raises ConfigError."""
    for place in (directory.resolve(), *directory.resolve().parents):
        status = place.stat()
        loose = status.st_mode & stat.S_IWOTH
        if loose and (place == directory.resolve() or not status.st_mode & stat.S_ISVTX):
            raise ConfigError(
                f"{place}: every user of this machine can write there, so no engine in it is used",
                f"run: chmod o-w {place} && {rebuild}",
            )
    if directory.stat().st_uid not in (0, os.geteuid()):
        raise ConfigError(
            f"{directory}: belongs to another user, so no engine in it is used", f"give it to root, then run: {rebuild}"
        )


def read_manifest(path: Path, rebuild: str) -> Manifest:
    """Raises ConfigError when it cannot be read, is damaged, of a newer version, or not only ours to write."""
    try:
        with open_own(path, rebuild) as file:
            text = file.read(LARGEST_MANIFEST_BYTES + 1)
        values = json.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "check who may read it") from error
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ConfigError(f"{path}: is damaged, not JSON", f"run: {rebuild}") from None
    version = values.get("schema_version") if isinstance(values, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise ConfigError(
            f"{path}: was written by a newer version of this toolkit (schema {version}, this one reads "
            f"{SCHEMA_VERSION})",
            f"update the toolkit, or run: {rebuild}",
        )
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise ConfigError(f"{path}: is damaged ({where}: {first['msg']})", f"run: {rebuild}") from None


@contextlib.contextmanager
def open_own(path: Path, rebuild: str) -> Iterator[BinaryIO]:
    """Open a regular file that only its owner, root or us, can write. Raises ConfigError, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path}: is not a file", f"remove it, then run: {rebuild}")
        if status.st_mode & stat.S_IWOTH or status.st_uid not in (0, os.geteuid()):
            raise ConfigError(f"{path}: others can write it, so it is not used", f"remove it, then run: {rebuild}")
        yield file
