"""Checks recordings against their sidecars, and those against their chain: is anything missing, changed or added."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edge.recordings.chain import Chain, Link, Run, Sidecar, folders_in, sidecars_in
from edge.recordings.names import CAMERA, DRAFT, SIDECAR, VIDEO, split_name
from edge.recordings.publishing import hash_of
from edge.storage import BROKEN, PART

Kind = Literal["modified", "missing", "extra", "chain", "unreadable", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be. text: what, for people."""

    path: Path
    kind: Kind
    text: str


def verify(root: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> list[Finding]:
    """Check all cameras of a root; also while they record. An empty list: all is as it was recorded.

    progress: called with the number of sidecars checked and that of all known so far. Raises OSError when `root`
    itself cannot be read.
    """
    with os.scandir(root) as entries:
        cameras = sorted(each.name for each in entries
                         if CAMERA.fullmatch(each.name) and each.is_dir(follow_symlinks=False))
    findings: list[Finding] = []
    total = done = 0
    for camera in cameras:
        checker = _Camera(root / camera)
        total += len(checker.names)
        for _ in checker.check():
            done += 1
            progress(done, total)
        findings += checker.findings
    return findings


class _Camera:
    def __init__(self, folder: Path) -> None:
        self._folder, self._chain = folder, Chain(folder)
        self.findings: list[Finding] = []
        self.names: list[str] = []
        self._head: Link | None = None
        with self._watched(folder):
            self._head = self._chain.head()     # before the names: a camera that records makes new ones
            self.names = list(sidecars_in(folder))

    def check(self) -> Iterator[None]:
        """Check this camera; yields after each sidecar."""
        sidecars: list[Sidecar] = []
        for name in self.names:
            with self._watched(self._folder / name):
                sidecars.append(self._chain.read(name))
        known = {each.link.sidecar for each in sidecars}
        with self._watched(self._folder):
            self._check_chain(sidecars)
        for sidecar in sidecars:
            with self._watched(self._folder / sidecar.link.sidecar):
                self._check_segment(sidecar)
            yield
        for name in self.names:
            if name not in known:
                yield
        with self._watched(self._folder):
            self._check_names()

    def _check_chain(self, sidecars: list[Sidecar]) -> None:
        runs = self._chain.deleted()
        by_number: dict[int, Sidecar] = {}
        for sidecar in sidecars:
            number, path = sidecar.link.sequence, self._folder / sidecar.link.sidecar
            if sidecar.fields.get("camera") != self._folder.name:
                self._found(path, "extra", "its sidecar tells of another camera")
            if number in by_number:
                self._found(path, "chain", f"number {number} is also that of {by_number[number].link.sidecar}")
            by_number[number] = sidecar
        for number, sidecar in sorted(by_number.items()):
            self._check_link(number, sidecar, by_number, runs)
        self._check_end(by_number, runs)

    def _check_end(self, by_number: dict[int, Sidecar], runs: list[Run]) -> None:
        """No later sidecar tells of the newest one; the chain's own file does."""
        head = self._head
        if head is None:
            return
        newest = by_number.get(head.sequence)
        if newest is None and not _run_with(runs, head.sequence):
            self._found(self._folder / head.sidecar, "missing", "the newest sidecar is gone")
        elif newest is not None and newest.link.sha256 != head.sha256:
            self._found(self._folder / newest.link.sidecar, "chain", "is not what the end of the chain was")

    def _check_link(self, number: int, sidecar: Sidecar, by_number: dict[int, Sidecar], runs: list[Run]) -> None:
        path = self._folder / sidecar.link.sidecar
        before, run = by_number.get(number - 1), _run_with(runs, number - 1)
        if before is not None:
            expected = before.link.sha256
        elif number == 1:
            expected = ""
        elif run is not None and run.last == number - 1:
            expected = run.sha256
        elif run is not None:
            return          # it was to be deleted itself
        else:
            self._found(path, "missing", f"number {number - 1} before it, {self._previous_name(sidecar)}, is gone")
            return
        if sidecar.previous_sha256 != expected:
            name = before.link.sidecar if before else self._previous_name(sidecar)
            self._found(path, "chain", f"what it says about {name} before it is not true: one of them was changed")

    def _previous_name(self, sidecar: Sidecar) -> str:
        previous: Any = sidecar.fields.get("previous")
        return str(previous.get("sidecar")) if isinstance(previous, dict) else "unknown"

    def _check_segment(self, sidecar: Sidecar) -> None:
        relative = Path(sidecar.link.sidecar)
        segment = self._folder / relative.with_suffix(VIDEO)
        told: Any = sidecar.fields.get("segment")
        told = told if isinstance(told, dict) else {}
        try:
            descriptor = os.open(segment, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            under_way = segment.with_name(segment.name + PART).exists() or segment.exists()
            if not under_way and not _run_with(self._chain.deleted(), sidecar.link.sequence):
                self._found(segment, "missing", "there is a sidecar, but no segment")
            return
        try:
            size_bytes, sha256 = hash_of(descriptor)
        finally:
            os.close(descriptor)
        if (told.get("name"), told.get("bytes"), told.get("sha256")) != (segment.name, size_bytes, sha256):
            self._found(segment, "modified", "is not the file that its sidecar tells of")

    def _check_names(self) -> None:
        """Files that no sidecar tells of."""
        for day in folders_in(self._folder):
            with os.scandir(self._folder / day) as entries:
                names = sorted(each.name for each in entries)
            for name in names:
                path, parts = self._folder / day / name, split_name(self._folder.name, name)
                if name.startswith("."):
                    continue        # a small file that is being written
                if parts is None:
                    self._found(path, "extra", "is not a name of ours")
                elif BROKEN in name:
                    self._found(path, "broken", "holds nothing that plays; it was set aside when it was recovered")
                elif parts[1] == VIDEO and parts[0] + SIDECAR not in names and path.exists():
                    self._found(path, "extra", "a segment without a sidecar")
                elif parts[1] not in (VIDEO, SIDECAR, DRAFT, VIDEO + PART):
                    self._found(path, "extra", "is not a name of ours")

    @contextlib.contextmanager
    def _watched(self, path: Path) -> Iterator[None]:
        """What cannot be read is a finding; what retention has just taken away is none."""
        try:
            yield
        except FileNotFoundError:
            return
        except OSError as error:
            self._found(path, "unreadable", os.strerror(error.errno) if error.errno else str(error))
        except ValueError as error:
            self._found(path, "unreadable", str(error))

    def _found(self, path: Path, kind: Kind, text: str) -> None:
        self.findings.append(Finding(path, kind, text))


def _run_with(runs: list[Run], number: int) -> Run | None:
    return next((run for run in runs if run.first <= number <= run.last), None)
