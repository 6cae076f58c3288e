"""Engines and their manifests on disk: written so that a cut leaves the old one, read so that only our own are used.

The manifest is the commit point. It names its payload, whose name holds a part of its hash, so that a new payload never
overwrites the one that the manifest still names.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from edge.device import Device
from edge.engines.manifest import SCHEMA_VERSION, EngineBackend, Manifest, engine_key
from edge.errors import ConfigError, StorageError

SYSTEM_DIRECTORY = Path("/var/lib/edge/engines")
SUFFIXES = {"tensorrt": ".engine", "onnxruntime": ".onnx"}
LARGEST_MANIFEST_BYTES = 1 << 20
_LOCK = ".lock"


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


def write_engine(directory: Path, payload: bytes | Path, manifest: Manifest) -> Path:
    """Write payload, then manifest, each synced before it gets its name; returns the payload's path.

    Until the last step the engine that was there before keeps working; afterwards its payload is removed. One writer
    at a time; others wait. Raises StorageError when the disk refuses, ConfigError when others can write the directory.
    """
    with _storage_errors(directory):
        directory.mkdir(parents=True, exist_ok=True, mode=0o755)
        check_directory(directory, rebuild_command(directory, manifest.model, manifest.backend))
        with (directory / _LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for orphan in directory.glob(f".{manifest.key}.*.part"):
                orphan.unlink(missing_ok=True)      # of a writer that was killed
            part, size_bytes, sha256 = _write_part(directory, manifest.key, payload)
            try:
                name = f"{manifest.key}-{sha256[:12]}{SUFFIXES[manifest.backend]}"
                part.replace(directory / name)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            _sync_directory(directory)
            complete = manifest.model_copy(update={"engine": name, "bytes": size_bytes, "sha256": sha256})
            text = complete.model_dump_json(indent=2) + "\n"
            Manifest.model_validate_json(text)
            part, *_ = _write_part(directory, manifest.key, text.encode())
            part.replace(manifest_path(directory, manifest.key))
            _sync_directory(directory)
            for other in _payloads(directory, manifest.key):
                if other.name != name:
                    other.unlink(missing_ok=True)
    return directory / name


def manifest_path(directory: Path, key: str) -> Path:
    """Where the manifest of `key` lies; see `edge.engines.manifest.engine_key`."""
    return directory / f"{key}.json"


def find_engine(
    directory: Path, model_name: str, backend: EngineBackend, height_px: int | None, width_px: int | None
) -> StoredEngine | None:
    """The engine for this input size, or one that takes any size; None when none was built.

    Raises ConfigError when there is one whose manifest is missing, unreadable, damaged or of a newer version.
    """
    keys = [engine_key(model_name, backend, height_px, width_px), engine_key(model_name, backend, None, None)]
    rebuild = rebuild_command(directory, model_name, backend)
    if not directory.is_dir():
        return None
    for key in dict.fromkeys(keys):
        path = manifest_path(directory, key)
        payloads = _payloads(directory, key)
        if path.exists() or path.is_symlink() or payloads:
            check_directory(directory, rebuild)
        if path.exists() or path.is_symlink():
            manifest = _read_manifest(path, rebuild)
            if manifest.key != key:
                raise ConfigError(f"{path}: is the manifest of {manifest.key}; it was renamed", f"run: {rebuild}")
            return StoredEngine(directory, manifest)
        if payloads:
            raise ConfigError(
                f"{payloads[0]}: there is no manifest beside it ({path.name}); the build was cut off, or only a part "
                "was copied",
                f"run: {rebuild}",
            )
    return None


def find_engines(directory: Path, model_name: str, backend: EngineBackend) -> list[StoredEngine]:
    """All engines of a model, one per input size. Raises what `find_engine` raises."""
    name = re.compile(rf"{re.escape(model_name)}-{backend}-(?:any|(\d+)x(\d+))(?:\.json|-[0-9a-f]{{12}}\.\w+)")
    matches = [match for path in directory.glob(f"{model_name}-{backend}-*") if (match := name.fullmatch(path.name))]
    sizes = {(int(match[2]), int(match[1])) if match[1] else (None, None) for match in matches}
    each = [find_engine(directory, model_name, backend, *size) for size in sorted(sizes, key=str)]
    return [stored for stored in each if stored is not None]


def load_engine(
    stored: StoredEngine, device: Device, model_sha256: str | None = None, description_sha256: str | None = None
) -> bytes:
    """The payload, after every check. What is returned is what was checked, not what lies on disk by now.

    device: this machine. model_sha256, description_sha256: what the engine must have been made from; None takes any.
    Raises ConfigError that says what does not match and which command mends it.
    """
    check_identity(stored, device, model_sha256, description_sha256)
    manifest, path, rebuild = stored.manifest, stored.path, stored.rebuild
    check_directory(stored.directory, rebuild)
    try:
        with _open_own(path, rebuild) as file:
            content = file.read(manifest.bytes + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: is missing, its manifest is there", f"run: {rebuild}") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "check who may read it") from error
    if len(content) != manifest.bytes:
        size = f"{len(content)} bytes" if len(content) < manifest.bytes else "more bytes"
        raise ConfigError(
            f"{path}: has {size} where its manifest says {manifest.bytes}; it was cut off or replaced",
            f"run: {rebuild}",
        )
    if hashlib.sha256(content).hexdigest() != manifest.sha256:
        raise ConfigError(
            f"{path}: its content is not what was built; the disk damaged it, or somebody changed it",
            f"check the disk, then run: {rebuild}",
        )
    return content


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


def _read_manifest(path: Path, rebuild: str) -> Manifest:
    try:
        with _open_own(path, rebuild) as file:
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
def _open_own(path: Path, rebuild: str) -> Iterator[BinaryIO]:
    """Open a regular file that only its owner, root or us, can write. Raises ConfigError, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path}: is not a file", f"remove it, then run: {rebuild}")
        if status.st_mode & stat.S_IWOTH or status.st_uid not in (0, os.geteuid()):
            raise ConfigError(f"{path}: others can write it, so it is not used", f"remove it, then run: {rebuild}")
        yield file


def _payloads(directory: Path, key: str) -> list[Path]:
    name = re.compile(rf"{re.escape(key)}-[0-9a-f]{{12}}\.(engine|onnx)")
    return [path for path in sorted(directory.glob(f"{key}-*")) if name.fullmatch(path.name)]


def _write_part(directory: Path, key: str, content: bytes | Path) -> tuple[Path, int, str]:
    """A synced file with a temporary name; its size and hash as read back from what was written."""
    handle, name = tempfile.mkstemp(dir=directory, prefix=f".{key}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "w+b") as file:
            if isinstance(content, Path):
                with content.open("rb") as source:
                    shutil.copyfileobj(source, file, 1 << 20)
            else:
                file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
            file.seek(0)
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
            return part, file.tell(), digest.hexdigest()
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _storage_errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except (ConfigError, StorageError):
        raise
    except OSError as error:
        where = error.filename or directory
        raise StorageError(f"{where}: {error.strerror or error}", "choose another --engine-dir") from error
