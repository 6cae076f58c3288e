"""The chain of sidecars of one camera: each names the one before it and its hash, so that none can be changed unseen.

``chain.json`` in the camera's directory says where the chain ends, and what retention took away. It is written before
a sidecar gets its name, with that one as ``next``, and once more after it: whatever a crash leaves, the end is known.
Where it is lost, the end is found from the sidecars themselves, by number, never by time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.errors import StorageError
from edge.recordings.ledger import SCHEMA
from edge.recordings.names import DATE, SIDECAR, split_name
from edge.storage import replace_file, storage_error

STATE, LOCK = "chain.json", "chain.lock"
LOCK_TIMEOUT_S = 20.0
MAX_SIDECAR_BYTES = 1 << 20
MAX_RUNS = 100


@dataclass(frozen=True, slots=True)
class Link:
    """One sidecar. sidecar: its path below the camera's directory."""

    sequence: int
    sidecar: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Run:
    """Sidecars that retention took away: numbers first to last, the hash that the first one names, that of the last."""

    first: int
    previous_sha256: str
    last: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A sidecar as it is on disk."""

    link: Link
    fields: dict[str, Any]

    @property
    def previous_sha256(self) -> str:
        """Hash of the one before it; empty for the first."""
        previous = self.fields.get("previous")
        return str(previous.get("sha256", "")) if isinstance(previous, dict) else ""


@dataclass(slots=True)
class _State:
    previous: Link | None = None
    next: Link | None = None
    deleted: list[Run] = dataclasses.field(default_factory=list)


class Chain:
    """The chain in `folder` (``<root>/<camera>``). Changes need the lock; several processes share a chain."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def locked(self, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
        """Keep others from changing the chain. Raises StorageError when they do not let go in time."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self.folder / LOCK, flags, 0o640)
        except OSError as error:
            raise storage_error(self.folder / LOCK, error) from error
        try:
            deadline_s = time.monotonic() + timeout_s
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() > deadline_s:
                    raise StorageError(f"{self.folder / LOCK}: is held by another process", "see who, with fuser")
                time.sleep(0.02)
            yield
        finally:
            os.close(descriptor)

    def head(self) -> Link | None:
        """The newest sidecar, deleted or not; None for an empty chain. Raises StorageError."""
        return self._head(self._load())

    def deleted(self) -> list[Run]:
        """What retention took away, in order."""
        state = self._load()
        return [] if state is None else state.deleted

    def append(self, sidecar: Path, fields: Mapping[str, Any]) -> Link:
        """Write `sidecar` as the new end of the chain. Hold the lock. Raises StorageError."""
        state = self._load()
        head = self._head(state)
        record = {"schema": SCHEMA, "sequence": head.sequence + 1 if head else 1,
                  "previous": {"sidecar": head.sidecar, "sha256": head.sha256} if head else None, **fields}
        content = (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode()
        link = Link(record["sequence"], str(sidecar.relative_to(self.folder)), hashlib.sha256(content).hexdigest())
        deleted = state.deleted if state else []
        self._save(_State(head, link, deleted))
        replace_file(sidecar, content)
        with contextlib.suppress(StorageError):     # the chain is longer, even where this cannot be written
            self._save(_State(link, None, deleted))
        return link

    def forget(self, gone: Iterable[Sidecar]) -> None:
        """Note, before they are deleted, which sidecars will be. Hold the lock. Raises StorageError."""
        state = self._load() or _State(previous=self._scan())
        for each in sorted(gone, key=lambda sidecar: sidecar.link.sequence):
            number = each.link.sequence
            if not any(run.first <= number <= run.last for run in state.deleted):
                state.deleted.append(Run(number, each.previous_sha256, number, each.link.sha256))
                state.deleted = _joined(state.deleted)
        self._save(state)

    def read(self, relative: str) -> Sidecar:
        """The sidecar of that name. Raises OSError, or ValueError for one that is none of ours."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(self.folder / relative, flags), "rb") as file:
            content = file.read(MAX_SIDECAR_BYTES)
        return parse_sidecar(relative, content)

    def _head(self, state: _State | None) -> Link | None:
        if state is None:
            return self._scan()
        if state.next is None:
            return state.previous
        if any(run.first <= state.next.sequence <= run.last for run in state.deleted):
            return state.next
        with contextlib.suppress(OSError, ValueError):
            if self.read(state.next.sidecar).link == state.next:
                return state.next
        return state.previous

    def _scan(self) -> Link | None:
        """The sidecar with the highest number."""
        newest: Link | None = None
        for relative in sidecars_in(self.folder):
            with contextlib.suppress(OSError, ValueError):
                link = self.read(relative).link
                newest = link if newest is None or link.sequence > newest.sequence else newest
        return newest

    def _load(self) -> _State | None:
        """None where it is not there or damaged."""
        try:
            values = json.loads((self.folder / STATE).read_bytes())
            links = (values["previous"], values["next"])
            previous, following = (None if each is None else Link(**each) for each in links)
            return _State(previous, following, [Run(**each) for each in values["deleted"]])
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
            return None
        except OSError as error:
            raise storage_error(self.folder / STATE, error) from error

    def _save(self, state: _State) -> None:
        content = json.dumps({"schema": SCHEMA, **dataclasses.asdict(state)}, indent=1) + "\n"
        replace_file(self.folder / STATE, content.encode())


def parse_sidecar(relative: str, content: bytes) -> Sidecar:
    """A sidecar from its bytes. Raises ValueError."""
    try:
        fields = json.loads(content)
    except RecursionError:
        raise ValueError("brackets without end") from None
    if not isinstance(fields, dict) or fields.get("schema") != SCHEMA:
        raise ValueError(f"no sidecar of schema {SCHEMA}")
    sequence = fields.get("sequence")
    if not isinstance(sequence, int) or isinstance(sequence, bool) or sequence < 1:
        raise ValueError("a sidecar without a number")
    return Sidecar(Link(sequence, relative, hashlib.sha256(content).hexdigest()), fields)


def sidecars_in(folder: Path) -> Iterator[str]:
    """Paths below a camera's directory of what is called like a sidecar."""
    for day in folders_in(folder):
        with os.scandir(folder / day) as entries:
            for entry in entries:
                parts = split_name(folder.name, entry.name)
                if parts is not None and parts[1] == SIDECAR and entry.name == parts[0] + SIDECAR:
                    yield f"{day}/{entry.name}"


def folders_in(folder: Path) -> list[str]:
    """Names of the days in a camera's directory, in order; links are left out."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries
                      if DATE.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False))


def _joined(runs: list[Run]) -> list[Run]:
    """Neighbours made one; of very many (chains cut by hand) the oldest are joined, too."""
    joined: list[Run] = []
    for run in sorted(runs, key=lambda each: each.first):
        if joined and (joined[-1].last + 1 == run.first or len(runs) - len(joined) > MAX_RUNS):
            last = joined.pop()
            run = Run(last.first, last.previous_sha256, run.last, run.sha256)     # noqa: PLW2901
        joined.append(run)
    return joined
