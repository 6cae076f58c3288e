"""What a campaign makes the daemon write: every frame of every file is looked at, before retention deletes it."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge.recordings.verify import verify
from tests.campaign.world import STOP_LIMIT_S, World
from tests.harness.campaign.oracle import Oracle

POLL_S = 0.5


@dataclass(slots=True)
class Verdict:
    """files, frames: decoded. faces: unmasked ones that were seen; unplayable: finished files that do not decode.

    findings: of `edge-status --verify`, but for files that were set aside because nothing in them plays: a camera that
    is killed within its first fragment leaves one. left: `.part` files of a daemon that was asked to end.
    slow_stops: seconds of SIGTERM that took longer than promised. abnormal: exit codes after SIGTERM other than 0.
    """

    files: int = 0
    frames: int = 0
    faces: list[str] = field(default_factory=list)
    unplayable: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    slow_stops: list[float] = field(default_factory=list)
    abnormal: list[int] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether all promises were kept."""
        return not (self.faces or self.unplayable or self.findings or self.slow_stops or self.abnormal)

    def describe(self) -> str:
        """For people."""
        text = f"{self.files} files with {self.frames} frames, {len(self.faces)} with an unmasked face"
        for name in ("faces", "unplayable", "findings", "left", "slow_stops", "abnormal"):
            if found := getattr(self, name):
                text += f"\n{name}: {found[:10]}"
        return text

    def to_plain(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


class Judge:
    """Looks at segments as they get their final names, in a thread of its own while the context is open."""

    def __init__(self, world: World, clip: Path) -> None:
        self._world, self._oracle = world, Oracle(clip)
        self._seen: set[tuple[str, int]] = set()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="judge")
        self.verdict = Verdict()

    def __enter__(self) -> Judge:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def finish(self) -> Verdict:
        """Look at what is left, once the daemon has ended."""
        self._look_at_new()
        root, verdict = self._world.disk.root, self.verdict
        verdict.slow_stops = [each for each in self._world.stops if each > STOP_LIMIT_S]
        verdict.abnormal = self._world.abnormal
        verdict.left = [path.name for path in root.rglob("*.mp4.part")]
        verdict.findings = [f"{found.path}: {found.text}" for found in verify(root) if found.kind != "broken"]
        return verdict

    def _watch(self) -> None:
        while not self._done.wait(POLL_S):
            self._look_at_new()

    def _look_at_new(self) -> None:
        try:
            found = [(path, path.stat().st_mtime_ns) for path in sorted(self._world.disk.root.rglob("*.mp4"))]
        except OSError:         # something went while we looked
            return
        for path, mtime_ns in found:
            key = path.name, mtime_ns
            if key not in self._seen:
                self._seen.add(key)
                self._look_at(path)

    def _look_at(self, path: Path) -> None:
        frames, faces = 0, []
        try:
            for time_s, face in self._oracle.look(path):
                frames += 1
                if face:
                    faces.append(f"{path.name} at {time_s:.2f} s")
        except Exception as error:
            if path.exists():
                self.verdict.unplayable.append(f"{path.name}: {error}")
        if faces:       # before retention deletes it
            shutil.copy(path, self._world.folder)
            faces.append(f"see {self._world.folder / path.name}; {self._world.last_fault}")
        self.verdict.files += 1
        self.verdict.frames += frames
        self.verdict.faces += faces
