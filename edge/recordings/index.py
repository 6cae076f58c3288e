"""What lies in a recordings root, kept in memory: directories that have not changed are not read again."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edge.recordings.chain import folders_in
from edge.recordings.names import CAMERA, DRAFT, SIDECAR, VIDEO, split_name
from edge.storage import BROKEN, PART

# A directory that changed within this time of being read may change again without a new time stamp.
_FRESH_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished segment with its sidecar, or a broken one, which has none. size_bytes: of both."""

    camera: str
    day: str
    name: str
    size_bytes: int
    stem: str

    @property
    def is_broken(self) -> bool:
        """Whether it was set aside."""
        return BROKEN in self.name

    @property
    def age_key(self) -> str:
        """Orders entries of all cameras by their start."""
        return self.stem[len(self.camera) :]


@dataclass(slots=True)
class Day:
    """One directory. entries: by start; parts: names of unfinished segments; strays: sidecars without a segment,
    drafts and temporary files, which a crash may have left."""

    changed_ns: int = -1
    is_fresh: bool = True
    entries: list[Entry] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    size_bytes: int = 0


class Index:
    """All cameras of one root. Used by one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.cameras: dict[str, dict[str, Day]] = {}

    def refresh(self) -> Iterator[None]:
        """Look at what has changed; yields between directories, so that the caller can show that it goes on.

        Raises OSError.
        """
        with os.scandir(self._root) as entries:
            names = {each.name for each in entries
                     if CAMERA.fullmatch(each.name) and each.is_dir(follow_symlinks=False)}
        for gone in set(self.cameras) - names:
            del self.cameras[gone]
        for camera in sorted(names):
            yield from self._refresh_camera(camera)

    @property
    def size_bytes(self) -> int:
        """Of all entries."""
        return sum(self.size_of(camera) for camera in self.cameras)

    @property
    def segments(self) -> int:
        """Number of all entries that are not broken."""
        return sum(not entry.is_broken for days in self.cameras.values() for day in days.values()
                   for entry in day.entries)

    def size_of(self, camera: str) -> int:
        """Bytes of the entries of a camera."""
        return sum(day.size_bytes for day in self.cameras.get(camera, {}).values())

    def oldest_first(self, camera: str | None = None) -> Iterator[Entry]:
        """Entries of one camera or of all, by start."""
        cameras = list(self.cameras) if camera is None else [camera]
        for day in sorted({day for name in cameras for day in self.cameras.get(name, {})}):
            found = [entry for name in cameras if day in self.cameras.get(name, {})
                     for entry in self.cameras[name][day].entries]
            yield from sorted(found, key=lambda entry: entry.age_key)

    def remove(self, entry: Entry) -> None:
        """It was deleted."""
        day = self.cameras[entry.camera][entry.day]
        with contextlib.suppress(ValueError):
            day.entries.remove(entry)
            day.size_bytes -= entry.size_bytes

    def _refresh_camera(self, camera: str) -> Iterator[None]:
        folder, days = self._root / camera, self.cameras.setdefault(camera, {})
        try:
            names = folders_in(folder)
        except FileNotFoundError:
            return
        for gone in set(days) - set(names):
            del days[gone]
        for name in names:
            known = days.get(name)
            with contextlib.suppress(FileNotFoundError):
                changed_ns = (folder / name).stat(follow_symlinks=False).st_mtime_ns
                if known is None or known.is_fresh or known.changed_ns != changed_ns:
                    days[name] = self._read(camera, name, changed_ns)
                    yield

    def _read(self, camera: str, day_name: str, changed_ns: int) -> Day:
        day = Day(changed_ns, is_fresh=abs(time.time_ns() - changed_ns) < _FRESH_NS)
        sizes: dict[str, dict[str, int]] = {}
        with os.scandir(self._root / camera / day_name) as entries:
            for each in entries:
                parts = split_name(camera, each.name.removeprefix("."))
                if parts is None or not each.is_file(follow_symlinks=False):
                    continue
                stem, ending = parts
                if each.name.startswith(".") or ending == DRAFT:
                    day.strays.append(each.name)
                elif ending == VIDEO + PART:
                    day.parts.append(each.name)
                else:
                    with contextlib.suppress(FileNotFoundError):
                        sizes.setdefault(stem, {})[each.name] = each.stat(follow_symlinks=False).st_size
        for stem, files in sizes.items():
            video, sidecar = stem + VIDEO, stem + SIDECAR
            if video in files and sidecar in files:
                day.entries.append(Entry(camera, day_name, video, files[video] + files[sidecar], stem))
            elif sidecar in files:
                day.strays.append(sidecar)
            day.entries += [Entry(camera, day_name, name, size, stem) for name, size in files.items() if BROKEN in name]
        day.entries.sort(key=lambda entry: entry.age_key)
        day.size_bytes = sum(entry.size_bytes for entry in day.entries)
        return day
