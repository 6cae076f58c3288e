"""Files that are complete when they have their final name: written as `.part`, synced, renamed, never over another.

A `.part` belongs to whoever holds its flock; the kernel gives the lock back when that process dies, so there is no
stale lock to clean up.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from edge.errors import StorageError

PART = ".part"
BROKEN = ".broken"
# How the files begin that this program writes. Browsers and others have their own `.part` files, which are not ours
# to rename. Videos: mp4mux's `ftyp` box with its major brand (gstqtmuxmap.c).
_BEGINNINGS: dict[str, tuple[bytes, ...]] = {
    ".mp4": (b"ftypmp42",), ".jsonl": (b'{"edge":',), ".png": (b"\x89PNG\r\n\x1a\n",), ".jpg": (b"\xff\xd8\xff",),
    ".jpeg": (b"\xff\xd8\xff",), ".webp": (b"RIFF",), ".bmp": (b"BM",), ".tif": (b"II*\0", b"MM\0*"),
    ".tiff": (b"II*\0", b"MM\0*"),
}   # fmt: skip


def part_path(final: Path) -> Path:
    """The name of a file while it is being written, in the same directory."""
    return final.with_name(final.name + PART)


def make_parent(final: Path) -> None:
    """Make the directory that `final` goes into, and those above it. Raises StorageError."""
    with _explained(final):
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise StorageError(f"{final.parent}: is not a directory", "give another name") from None


def create_part(final: Path, overwrite: bool = False) -> int:
    """Create the `.part` of `final`, take its lock, and give the open file descriptor (read and write).

    A `.part` that no live process holds is what an earlier run left; it is set aside, not overwritten.
    Raises StorageError: `final` exists and may not be overwritten, somebody else writes it, the `.part` is none of
    this program's, directory missing or read-only.
    """
    if not overwrite and os.path.lexists(final):
        raise StorageError(f"{final}: exists already", "give another name, or --overwrite")
    part = part_path(final)
    with _explained(final):
        for _ in range(3):
            with contextlib.suppress(FileExistsError, _ReplacedError):
                return _open_locked(part, os.O_CREAT | os.O_EXCL)
            with contextlib.suppress(_ReplacedError):
                _clear(part)
    raise StorageError(f"{part}: keeps appearing", "another program writes this name")


def publish(part: Path, final: Path, overwrite: bool = False) -> None:
    """Sync `part`, give it its final name in one step, and sync the directory.

    Raises StorageError; `part` is still there then, and an existing `final` is as it was.
    """
    with _explained(final):
        _sync(part)
        if overwrite:
            part.replace(final)
        else:
            _rename_new(part, final)
        _sync(final.parent)


def replace_file(path: Path, content: bytes, sync: bool = True) -> None:
    """Write a small file so that at every moment either the old one or all of the new one is there.

    sync: also after a power cut. Raises StorageError.
    """
    temporary = path.with_name(f".{path.name}{PART}")
    with _explained(path):
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            with os.fdopen(os.open(temporary, flags, 0o640), "wb") as file:
                file.write(content)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        if sync:
            _sync(path.parent)


def claim(part: Path) -> int:
    """Open a `.part` that no live process holds and take its lock; the descriptor reads and writes.

    Raises StorageError: somebody writes it, or it is none of this program's; OSError where it cannot be opened.
    """
    descriptor = _open_locked(part)
    if not _is_ours(descriptor, part.with_name(part.name.removesuffix(PART)).suffix.lower()):
        os.close(descriptor)
        raise StorageError(f"{part}: another program's file has this name", "move it, or give another name")
    return descriptor


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of a `.part` of an earlier run. path: its new name. outcome: ``playable`` or ``broken``."""

    part: Path
    path: Path
    outcome: Literal["playable", "broken"]


def recover(directory: Path, pattern: str = "*") -> list[Recovered]:
    """Give every orphaned `.part` in `directory` a final name, if its name without ``.part`` fits the glob `pattern`.

    Browsers call their unfinished downloads so, too: in a directory that is not ours alone the pattern must say which.

    A video with at least one whole fragment is cut after the last one and becomes `<name>_recovered.mp4`; anything
    else becomes `<name>.part.broken`. Files that a live process writes, and those that do not begin as this program's
    do or belong to another user, are left alone.
    """
    found = []
    parts: list[Path] = []
    with contextlib.suppress(OSError):          # a name that is too long, a folder that may not be read
        parts = sorted(directory.glob(pattern + PART))
    for part in parts:
        with contextlib.suppress(OSError):      # StorageError among them: a link, a directory, somebody else's
            found.append(_recover_one(part))
    return found


def whole_fragments_bytes(file: BinaryIO) -> int:
    """How many leading bytes of an MP4 file can be played: up to the end of the last whole fragment, or 0.

    Walks the top-level boxes (ISO/IEC 14496-12, 4.2). A fragment is a `moof` with its `mdat`; the recorder writes the
    first one as `mdat` and `moov`, and each later `mdat` before its `moof`.
    """
    total, at = file.seek(0, os.SEEK_END), 0
    playable, media, index = 0, False, False
    for kind, size in _boxes(file, total):
        at += size
        media = media or kind == b"mdat"
        index = index or kind in (b"moov", b"moof")
        if media and index:
            playable, media, index = at, False, False
    return playable


def _boxes(file: BinaryIO, total: int) -> Iterator[tuple[bytes, int]]:
    """Type and size of each whole top-level box; stops at the first that is cut off or nonsense."""
    at = 0
    while at + 8 <= total:
        file.seek(at)
        head = file.read(16)
        size, kind = struct.unpack(">I4s", head[:8])
        if size == 1 and len(head) == 16:
            size = struct.unpack(">Q", head[8:])[0]
        if size < 8 or at + size > total:
            return
        yield kind, size
        at += size


def _recover_one(part: Path) -> Recovered:
    final = part.with_name(part.name.removesuffix(PART))
    descriptor = claim(part)
    try:
        with os.fdopen(os.dup(descriptor), "r+b") as file:
            playable = whole_fragments_bytes(file) if final.suffix == ".mp4" else 0
            if playable:
                file.truncate(playable)
        if not playable:
            target = set_aside(part)
            return Recovered(part, target, "broken")
        target = free_name(final.with_name(f"{final.stem}_recovered{final.suffix}"))
        publish(part, target)
        return Recovered(part, target, "playable")
    finally:
        os.close(descriptor)


def _clear(part: Path) -> None:
    """Move a `.part` that nobody writes out of the way, as `recover` would."""
    with contextlib.suppress(FileNotFoundError):
        _recover_one(part)


def _is_ours(descriptor: int, suffix: str) -> bool:
    """Whether this looks like an unfinished file of this program and user; an empty one may be anybody's."""
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_nlink != 1:
        return False
    beginning = os.pread(descriptor, 16, 0)[4 if suffix == ".mp4" else 0:]
    return facts.st_size == 0 or beginning.startswith(_BEGINNINGS.get(suffix, ()))


def set_aside(part: Path) -> Path:
    """Rename a `.part` that nobody writes to ``<name>.part.broken``; gives the new name. Raises OSError."""
    target = free_name(part.with_name(part.name + BROKEN))
    _rename_new(part, target)
    _sync(target.parent)
    return target


def free_name(path: Path) -> Path:
    """`path`, or the first of `<stem>_2`, `<stem>_3` … that does not exist."""
    candidate, number = path, 2
    while os.path.lexists(candidate):
        candidate = path.with_name(f"{path.stem}_{number}{path.suffix}")
        number += 1
    return candidate


def storage_error(path: Path, error: OSError) -> StorageError:
    """The system's error about a file, with what to do."""
    remedies = {
        errno.ENOSPC: "free some space", errno.EDQUOT: "raise the quota, or free some space",
        errno.EROFS: "the file system is read-only: check the disk, then mount it writable again",
        errno.EACCES: "check who may write there", errno.ENAMETOOLONG: "use a shorter name",
        errno.ENOENT: "is its file system mounted?",
    }  # fmt: skip
    reason = os.strerror(error.errno) if error.errno else str(error)
    return StorageError(f"{path}: {reason}", remedies.get(error.errno or 0, "check the disk"))


class _ReplacedError(StorageError):
    """Between opening and locking, another process gave the file another name or took it away."""


def _open_locked(part: Path, flags: int = 0) -> int:
    """Raises _ReplacedError when the lock is not on the file that has this name now."""
    wanted = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | flags
    descriptor = os.open(part, wanted, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(descriptor, part):
            raise _ReplacedError(f"{part}: was replaced meanwhile", "try again")
    except BlockingIOError:
        os.close(descriptor)
        raise StorageError(f"{part}: another process is writing it", "wait for it, or give another name") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _rename_new(source: Path, target: Path) -> None:
    """Rename without replacing: a hard link fails where the name is taken. File systems without hard links
    (exFAT, some network shares) get a check and a rename."""
    try:
        target.hardlink_to(source)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "exists", str(target)) from None
        source.rename(target)
    else:
        source.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or path.is_file():
            raise                                    # some file systems cannot sync a directory
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _explained(final: Path) -> Iterator[None]:
    """Turn the system's errors into StorageError that names the file."""
    try:
        yield
    except StorageError:
        raise
    except FileExistsError:
        raise StorageError(f"{final}: exists already", "give another name, or --overwrite") from None
    except FileNotFoundError:
        raise StorageError(f"{final.parent}: no such directory", "create it first") from None
    except OSError as error:
        raise storage_error(final, error) from None
