"""What a campaign left behind: every frame of every file is looked at, and nothing may be missing without a reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaign.world import STOP_LIMIT_S, World


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


def judge(world: World, clip: Path) -> Verdict:
    """Look at what the world's daemon recorded; it has ended."""
    from edge.recordings.verify import verify
    from tests.harness.campaign.oracle import Oracle

    verdict = Verdict(slow_stops=[each for each in world.stops if each > STOP_LIMIT_S], abnormal=world.abnormal)
    oracle = Oracle(clip)
    for path in sorted(world.disk.root.rglob("*.mp4")):
        verdict.files += 1
        try:
            for time_s, seen in oracle.look(path):
                verdict.frames += 1
                if seen:
                    verdict.faces.append(f"{path.name} at {time_s:.2f} s")
        except Exception as error:
            verdict.unplayable.append(f"{path.name}: {error}")
    verdict.left = [path.name for path in world.disk.root.rglob("*.part")]
    verdict.findings = [f"{finding.path}: {finding.text}" for finding in verify(world.disk.root)
                        if finding.kind != "broken"]
    return verdict
