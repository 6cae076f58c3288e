"""The runtime directory: ours alone, held by one daemon, with the socket where cameras find detections."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path

from edge.cameras import ServiceSettings
from edge.errors import ConfigError, RetryLater, StorageError
from edge.service.health import remove_status

SOCKET_FILE, LOCK_FILE = "inference.sock", "lock"
# sun_path of unix(7), less the end mark.
MAX_SOCKET_PATH_BYTES = 107
BACKLOG = 64


def choose(settings: ServiceSettings, environment: Mapping[str, str]) -> Path:
    """The configured directory; where none is configured and systemd made one, that one."""
    made = environment.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if made and settings.runtime_dir == ServiceSettings(()).runtime_dir:
        return Path(made)
    return settings.runtime_dir


class RuntimeDirectory:
    """Holds the directory from construction to `close`.

    Raises RetryLater when another daemon holds it, ConfigError when others may write to it or its path is too long for
    a socket, StorageError when it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket_path = path / SOCKET_FILE
        if len(os.fsencode(self.socket_path)) > MAX_SOCKET_PATH_BYTES:
            raise ConfigError(f"{path}: too long for a socket", "choose a shorter runtime_dir")
        try:
            _make_private(path)
            self._lock = _lock(path / LOCK_FILE)
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"{path}: {error.strerror}", "choose a runtime_dir where this user may write") from None
        try:
            self.listener = _listen(self.socket_path)
        except OSError as error:
            os.close(self._lock)
            raise StorageError(f"{self.socket_path}: {error.strerror}") from None

    def close(self) -> None:
        """Take away what says that a daemon runs here."""
        self.listener.close()
        with contextlib.suppress(OSError):
            remove_status(self.path)
            self.socket_path.unlink(missing_ok=True)
        os.close(self._lock)


def _make_private(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    # Detector inputs hold faces: nobody else may put a socket of his own there.
    if found.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(found.st_mode) & 0o022:
        raise ConfigError(f"{path}: other users may write there", "chmod go-w it, or choose another runtime_dir")


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise RetryLater(f"another edge-daemon (process {holder or 'unknown'}) uses {path.parent}",
                         "stop it first, or give this one another runtime_dir") from None  # fmt: skip
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener
