"""The runtime directory and its lock."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import closing
from pathlib import Path

import pytest

from edge.cameras import ServiceSettings
from edge.errors import ConfigError, EdgeError, RetryLater, StorageError
from edge.supervisor.runtime_dir import RuntimeDirectory, choose


def test_is_ours_alone_and_one_daemon_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run"
    with closing(RuntimeDirectory(path)) as runtime:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert stat.S_IMODE(runtime.socket_path.stat().st_mode) == 0o600
        with pytest.raises(RetryLater, match=rf"another edge-daemon \(process {os.getpid()}\) uses {path}; stop it"):
            RuntimeDirectory(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as camera:
            camera.connect(str(runtime.socket_path))            # waits for the inference process, not for us
    assert [each.name for each in path.iterdir()] == ["lock"]
    with closing(RuntimeDirectory(path)) as runtime:            # what a killed daemon left is no obstacle
        runtime.listener.close()


def long(path: Path) -> Path:
    return path / ("x" * 100)


def shared(path: Path) -> Path:
    (path / "shared").mkdir()
    (path / "shared").chmod(0o777)
    return path / "shared"


def file(path: Path) -> Path:
    (path / "file").touch()
    return path / "file"


def linked_lock(path: Path) -> Path:
    (path / "linked").mkdir(mode=0o700)
    (path / "linked" / "lock").symlink_to("/etc/passwd")
    return path / "linked"


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (long, ConfigError, "too long for a socket; choose a shorter runtime_dir"),
        (shared, ConfigError, "other users may write there; chmod go-w it"),
        (file, StorageError, "File exists; choose a runtime_dir"),
        (linked_lock, StorageError, "symbolic links; choose a runtime_dir"),
    ],
)
def test_refused(tmp_path: Path, make: object, error: type[EdgeError], text: str) -> None:
    with pytest.raises(error, match=text):
        RuntimeDirectory(make(tmp_path))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("configured", "made", "chosen"),
    [
        (None, None, "/run/edge"),
        (None, "/run/edge-two:/run/other", "/run/edge-two"),
        ("/tmp/mine", "/run/edge-two", "/tmp/mine"),
    ],
)
def test_choice(configured: str | None, made: str | None, chosen: str) -> None:
    settings = ServiceSettings((), Path(configured)) if configured else ServiceSettings(())
    assert choose(settings, {"RUNTIME_DIRECTORY": made} if made else {}) == Path(chosen)
