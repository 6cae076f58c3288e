"""What lies in a directory of recordings: every frame looked at, every second accounted for."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from edge.recordings.verify import verify
from tests.harness.campaign.oracle import Oracle


@dataclass(slots=True)
class Found:
    """faces: frames in which one can be recognised, of `frames` that were decoded. recorded_s: as sidecars say.

    unexplained_s: between the first frame and the last, neither recorded nor in a gap of a sidecar. wrong: what
    `edge-status --verify` says, and segments whose number of frames is not their sidecar's.
    """

    faces: int = 0
    frames: int = 0
    segments: int = 0
    recorded_s: float = 0.0
    gaps_s: float = 0.0
    unexplained_s: float = 0.0
    wrong: list[str] = field(default_factory=list)


def look_at(root: Path, camera: str, oracle: Oracle) -> Found:
    """All finished segments of one camera."""
    found = Found(wrong=[finding.text for finding in verify(root) if finding.path.is_relative_to(root / camera)])
    sidecars = []
    for segment in sorted((root / camera).rglob("*.mp4")):
        sidecars.append(json.loads(segment.with_suffix(".json").read_text()))
        seen = [face for _, face in oracle.look(segment)]
        found.faces += sum(seen)
        found.frames += len(seen)
        if len(seen) != sidecars[-1]["frames"]:
            found.wrong.append(f"{segment.name} holds {len(seen)} frames, its sidecar says {sidecars[-1]['frames']}")
    sidecars.sort(key=lambda each: each["sequence"])
    found.segments = len(sidecars)
    found.recorded_s = sum(each["duration_s"] for each in sidecars)
    starts = [_seconds(each["start_utc"]) for each in sidecars[1:]]
    for each, following_s in zip(sidecars, [*starts, None], strict=True):
        for gap in each["gaps"]:
            if gap["duration_s"] is not None:
                found.gaps_s += gap["duration_s"]
            elif following_s is not None:
                found.gaps_s += following_s - _seconds(gap["start_utc"])
    if sidecars:
        whole_s = _seconds(sidecars[-1]["end_utc"]) - _seconds(sidecars[0]["start_utc"])
        found.unexplained_s = whole_s - found.recorded_s - found.gaps_s
    return found


def _seconds(utc: str) -> float:
    return datetime.fromisoformat(utc.replace("Z", "+00:00")).timestamp()
