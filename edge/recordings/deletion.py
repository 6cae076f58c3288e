"""Deletes finished segments of ours, and nothing else: by name and sidecar, inside their root, never through a link.

Directories are opened one by one without following links, and files are named relative to them, so that nobody who
can write into the root can turn this against files elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge.errors import StorageError
from edge.recordings.chain import MAX_SIDECAR_BYTES, Chain, Sidecar, parse_sidecar
from edge.recordings.clock import utc_of
from edge.recordings.index import Entry
from edge.recordings.names import SIDECAR

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _Doomed:
    entry: Entry
    sidecar: Sidecar | None


def delete(root: Path, camera: str, day: str, entries: Sequence[Entry], ended_before_s: float | None = None
           ) -> tuple[list[Entry], list[Entry]]:  # fmt: skip
    """Delete entries of one day of one camera; the chain remembers them. Gives those that are gone and those that are
    not ours to delete.

    ended_before_s: leave those that ended later (UTC seconds). Raises OSError (StorageError) for the disk.
    """
    with _directory(root, camera, day) as folder:
        doomed, foreign = [], []
        for entry in entries:
            verdict = _look(folder, entry)
            if verdict is None:
                foreign.append(entry)
            elif ended_before_s is None or verdict.sidecar is None or _end_of(verdict.sidecar) <= ended_before_s:
                doomed.append(verdict)
        if doomed:
            chain = Chain(root / camera)
            with chain.locked():
                _note(chain, folder, doomed)
                for each in doomed:
                    _unlink(folder, each.entry.name)
                    if each.sidecar is not None:
                        _unlink(folder, each.entry.stem + SIDECAR)
        return [each.entry for each in doomed], foreign


def sweep(root: Path, camera: str, day: str, strays: Sequence[str], older_than_s: float) -> None:
    """Remove what crashes left: sidecars of segments that retention took, old drafts and temporary files.

    older_than_s: file time, seconds since 1970. Raises OSError.
    """
    runs = Chain(root / camera).deleted()
    with _directory(root, camera, day) as folder:
        for name in strays:
            if name.endswith(SIDECAR):
                with contextlib.suppress(OSError, ValueError):
                    number = _read_sidecar(folder, name, f"{day}/{name}").link.sequence
                    if any(run.first <= number <= run.last for run in runs):
                        _unlink(folder, name)
                continue
            with contextlib.suppress(FileNotFoundError):
                facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode) and facts.st_mtime < older_than_s:
                    _unlink(folder, name)


def remove_empty_day(root: Path, camera: str, day: str) -> None:
    """Remove the directory of a day that is over and holds nothing any more."""
    with contextlib.suppress(OSError), _directory(root, camera) as folder:
        os.rmdir(day, dir_fd=folder)


@contextlib.contextmanager
def _directory(*path: str | Path) -> Iterator[int]:
    """A descriptor of ``root/camera/day`` in which no step but those above the root is a link."""
    descriptor = os.open(path[0], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path[1:]:
            inner = os.open(name, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _look(folder: int, entry: Entry) -> _Doomed | None:
    """What there is to delete; None where it is not ours."""
    try:
        if not stat.S_ISREG(os.stat(entry.name, dir_fd=folder, follow_symlinks=False).st_mode):
            return None
    except FileNotFoundError:
        return None
    if entry.is_broken:
        return _Doomed(entry, None)
    name = entry.stem + SIDECAR
    try:
        sidecar = _read_sidecar(folder, name, f"{entry.day}/{name}")
    except (FileNotFoundError, ValueError):
        return None
    segment = sidecar.fields.get("segment")
    if not isinstance(segment, dict) or segment.get("name") != entry.name:
        return None
    return _Doomed(entry, sidecar) if sidecar.fields.get("camera") == entry.camera else None


def _read_sidecar(folder: int, name: str, relative: str) -> Sidecar:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        return parse_sidecar(relative, file.read(MAX_SIDECAR_BYTES))


def _end_of(sidecar: Sidecar) -> float:
    """UTC seconds; long ago where the sidecar does not say."""
    try:
        return utc_of(sidecar.fields["end_utc"])
    except (KeyError, ValueError, TypeError, AttributeError):
        return 0.0


def _note(chain: Chain, folder: int, doomed: list[_Doomed]) -> None:
    gone = [each.sidecar for each in doomed if each.sidecar is not None]
    if not gone:
        return
    try:
        chain.forget(gone)
    except StorageError:
        # On a disk that is full to the last block even this note needs the room of what is to go.
        _unlink(folder, doomed[0].entry.name)
        chain.forget(gone)


def _unlink(folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
