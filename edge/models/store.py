"""Where model files lie on this machine."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from edge.models.description import ModelDescription

SYSTEM_STORE = Path("/var/lib/edge/models")


def user_store() -> Path:
    """``$XDG_CACHE_HOME/edge/models``, or the same under ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edge" / "models"


@dataclass(frozen=True, slots=True)
class ModelStore:
    """Directories that are searched in order; files are fetched into the first."""

    directories: tuple[Path, ...]

    @staticmethod
    def default(models_dir: Path | None = None) -> ModelStore:
        """`models_dir` alone if given; else the service's store where it can be read, and the user's own.

        Root, as which the service is set up, writes to the service's store.
        """
        if models_dir is not None:
            return ModelStore((models_dir,))
        if not os.access(SYSTEM_STORE, os.R_OK | os.X_OK):
            return ModelStore((user_store(),))
        pair = (user_store(), SYSTEM_STORE)
        return ModelStore(pair[::-1] if os.access(SYSTEM_STORE, os.W_OK) else pair)

    @property
    def target(self) -> Path:
        """Directory that files are fetched into."""
        return self.directories[0]

    def place(self, model: ModelDescription) -> Path:
        """Where the file of `model` is put when it is fetched, or by hand."""
        return self.target / f"{model.name}.onnx"

    def installed(self, model: ModelDescription) -> Path | None:
        """The file of `model`, if it is here and its hash is right."""
        for directory in self.directories:
            path = directory / f"{model.name}.onnx"
            if file_sha256(path, model.bytes) == model.sha256:
                return path
        return None


def file_sha256(path: Path, expected_bytes: int | None = None) -> str | None:
    """Hash of a file, in hexadecimal; None when it cannot be read or has another size."""
    try:
        if expected_bytes is not None and path.stat().st_size != expected_bytes:
            return None
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()
