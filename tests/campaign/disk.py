"""A small file system of its own for the recordings, which can be filled, frozen, hidden and made read-only.

Needs root and a loop device (ext4 in a file). Where these are not to be had it is a plain directory, and only what does
not need them is injected.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

HANGS_AT_MOST_S = 5.0


class Disk:
    """`root` is the recordings root while the context is open. real: whether it is a file system of its own."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self._image = folder / "disk.img"
        self._mount = folder / "disk"
        self._size_bytes = size_bytes
        self.root = self._mount / "recordings"
        self.real = False

    def __enter__(self) -> Disk:
        self._mount.mkdir()
        with self._image.open("wb") as file:
            file.truncate(self._size_bytes)
        self.real = os.geteuid() == 0 and _run("mkfs.ext4", "-q", "-m", "0", str(self._image)) and _run(
            "mount", "-o", "loop", str(self._image), str(self._mount))
        self.root.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()
        if self.real:
            _run("umount", str(self._mount)) or _run("umount", "-l", str(self._mount))
        self._image.unlink(missing_ok=True)

    def fill(self) -> None:
        """Another program takes all the space that is left."""
        with contextlib.suppress(OSError), (self._mount / "ballast").open("ab", buffering=0) as file:
            free_bytes = os.statvfs(self._mount).f_bavail * os.statvfs(self._mount).f_frsize
            os.posix_fallocate(file.fileno(), 0, max(1, free_bytes - (64 << 10)))
            while True:
                file.write(bytes(4096))

    def empty(self) -> None:
        """Give the space back."""
        (self._mount / "ballast").unlink(missing_ok=True)

    def make_read_only(self) -> None:
        """New files cannot be made any more; open ones go on, as after `mount -o remount,ro` by a careful operator."""
        _run("mount", "--bind", str(self.root), str(self.root))
        _run("mount", "-o", "remount,bind,ro", str(self.root))

    def hide(self) -> None:
        """The recordings are not mounted any more: an empty directory is seen in their place."""
        _run("mount", "-t", "tmpfs", "-o", "size=4m,mode=755", "tmpfs", str(self.root))

    def freeze(self, seconds: float) -> None:
        """Every write blocks in the kernel for so long."""
        if _run("fsfreeze", "-f", str(self._mount)):
            time.sleep(min(seconds, HANGS_AT_MOST_S))
            _run("fsfreeze", "-u", str(self._mount))

    def heal(self) -> None:
        """Undo everything."""
        if self.real:
            while str(self.root) in _mounted():
                if not _run("umount", "-l", str(self.root)):
                    break
        with contextlib.suppress(OSError):
            self.empty()


def _mounted() -> list[str]:
    return [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]


def _run(*command: str) -> bool:
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False
