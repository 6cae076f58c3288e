"""Engines and their manifests on disk: written so that a cut leaves the old one, read so that only our own are used.

The manifest is the commit point. It names its payload, whose name holds a part of its hash, so that a new payload never
overwrites the one that the manifest still names.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from edge.device import Device
from edge.engines.checks import (
    StoredEngine,
    check_directory,
    check_identity,
    default_engine_dir,
    open_own,
    read_manifest,
    rebuild_command,
)
from edge.engines.manifest import EngineBackend, Manifest, engine_key
from edge.errors import ConfigError, StorageError

__all__ = [
    "StoredEngine", "check_identity", "default_engine_dir", "find_engine", "find_engines", "load_engine",
    "manifest_path", "rebuild_command", "write_engine",
]   # fmt: skip

SUFFIXES = {"tensorrt": ".engine", "onnxruntime": ".onnx"}
_LOCK = ".lock"


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
            manifest = read_manifest(path, rebuild)
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
        with open_own(path, rebuild) as file:
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
