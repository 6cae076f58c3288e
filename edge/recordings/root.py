"""The directory that recordings go into: is it there, is it the same one as before, how much may be written.

The root is never made here. Where a disk should be mounted and is not, its mount point is an empty directory, and
recording into that would fill the system's disk. So a root holds a marker file with an id: it is written into an
empty root only, and once it was seen, a root without it, or with another one, is taken for lost.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from edge.errors import StorageError
from edge.storage import storage_error

MARKER = ".edge-recordings"
_EMPTY_ENOUGH = {"lost+found"}          # of a file system that was just made
_MARKER_BYTES = 4096
_PAUSE_BYTES = 8 << 20


class RootLostError(StorageError):
    """The root is not there, or is another one: most likely its file system is not mounted."""


@dataclass(frozen=True, slots=True)
class Space:
    """Room on the file system of a root, bytes. floor_bytes: what has to stay free. fall_bytes: by how much less was
    free at one look than at the one before, at most.

    Recording pauses below `pause_bytes` of free space, and goes on above `resume_bytes`. The margin above the floor is
    for what all programs write before the next look, and for what cameras hold and write when they complete a segment.
    """

    free_bytes: int
    total_bytes: int
    floor_bytes: int
    is_read_only: bool = False
    fall_bytes: int = 0

    @property
    def margin_bytes(self) -> int:
        """8 MiB; on a small disk a two-hundredth of it."""
        return min(_PAUSE_BYTES, self.total_bytes // 200)

    @property
    def pause_bytes(self) -> int:
        """Recording pauses here: always below what retention keeps free, else it would never go on."""
        most_bytes = max(3 * self.margin_bytes, self.total_bytes * 3 // 400)
        return self.floor_bytes + max(self.margin_bytes, min(3 * self.fall_bytes, most_bytes))

    @property
    def resume_bytes(self) -> int:
        """And resumes here."""
        return self.pause_bytes + self.margin_bytes

    def goal_bytes(self, written_per_minute: int) -> int:
        """What retention keeps free: what is written in a minute, at least 64 MiB, at most a hundredth of the disk, and
        enough for a pause to end."""
        headroom = min(max(64 << 20, written_per_minute), self.total_bytes // 100)
        return self.floor_bytes + max(headroom, 4 * self.margin_bytes)


class Root:
    """One recordings root. Not thread-safe; several processes use the same one."""

    def __init__(self, path: Path, floor_bytes: int) -> None:
        self.path, self._floor_bytes = path, floor_bytes
        self._id: str | None = None

    def check(self) -> None:
        """Raises RootLostError when the root is not there or is another one, StorageError when it cannot be used."""
        try:
            if not stat.S_ISDIR(self.path.stat().st_mode):
                raise StorageError(f"{self.path}: is not a directory", "give another directory")
            found = self._read_marker()
            if found is None and self._id is None:
                found = self._write_marker()
        except FileNotFoundError:
            raise RootLostError(f"{self.path}: no such directory", "mount its file system, or make it") from None
        except StorageError:
            raise
        except OSError as error:
            raise storage_error(self.path, error) from error
        if self._id is not None and found != self._id:
            raise RootLostError(f"{self.path}: its file system is gone", "mount it again")
        self._id = found

    def space(self) -> Space:
        """Room there. Raises StorageError."""
        try:
            facts = os.statvfs(self.path)
        except OSError as error:
            raise storage_error(self.path, error) from error
        return Space(facts.f_bavail * facts.f_frsize, facts.f_blocks * facts.f_frsize, self._floor_bytes,
                     bool(facts.f_flag & os.ST_RDONLY))

    def make_folder(self, folder: Path) -> None:
        """Make the directory of a camera and of a day, no other. Raises StorageError."""
        for each in (folder.parent, folder):
            with contextlib.suppress(FileExistsError):
                try:
                    each.mkdir(mode=0o750)
                except FileExistsError:
                    raise
                except OSError as error:
                    raise storage_error(each, error) from error
            if not stat.S_ISDIR(each.lstat().st_mode):
                raise StorageError(f"{each}: is not a directory (links are not followed)", "move it away")

    def _read_marker(self) -> str | None:
        try:
            descriptor = os.open(self.path / MARKER, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            self.path.lstat()       # the root itself may be what is missing
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_MARKER_BYTES).decode("utf-8", "replace")

    def _write_marker(self) -> str | None:
        if {each.name for each in self.path.iterdir()} - _EMPTY_ENOUGH:
            if found := self._read_marker():        # another process was quicker
                return found
            raise StorageError(f"{self.path}: holds other files", "name an empty directory, or, if recordings shall go "
                               f"here and be deleted here in time, make an empty file {MARKER} in it")
        text = json.dumps({"edge_recordings": 1, "id": secrets.token_hex(16)}) + "\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        temporary = self.path / f"{MARKER}.{os.getpid()}.{secrets.token_hex(4)}"
        with os.fdopen(os.open(temporary, flags, 0o640), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            with contextlib.suppress(FileExistsError):
                (self.path / MARKER).hardlink_to(temporary)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
                raise
            temporary.rename(self.path / MARKER)    # no hard links there
        finally:
            temporary.unlink(missing_ok=True)
        return self._read_marker()
