"""What a sidecar says about its segment: counts, gaps, origin. Never pixels, embeddings or places of faces."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from edge import __version__
from edge.recordings.clock import utc_text

SCHEMA = 1
# A stream that misbehaves for hours must not make sidecars without end: what is beyond is summed in one last entry.
MAX_GAPS, MAX_REASONS, MAX_REASON_CHARS = 200, 20, 200
OTHER = "other reasons"


@dataclass(frozen=True, slots=True)
class Provenance:
    """What made a recording. source: the camera's address without credentials. The rest may be empty."""

    model: str = ""
    model_sha256: str = ""
    engine_sha256: str = ""
    runtime: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without frames. duration_s: None lasts up to the segment that follows."""

    start_utc_s: float
    duration_s: float | None
    reason: str

    def fields(self) -> dict[str, Any]:
        """As in a sidecar."""
        duration_s = None if self.duration_s is None else round(self.duration_s, 3)
        return {"start_utc": utc_text(self.start_utc_s), "duration_s": duration_s, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Head:
    """What is known when a segment begins. comment: see `edge.anonymize.mark.comment_on`."""

    camera: str
    start_utc_s: float
    clock_synchronised: bool | None
    width_px: int
    height_px: int
    codec: str
    encoder: str
    config_sha256: str
    comment: str = ""


@dataclass(slots=True)
class Ledger:
    """Adds up one segment. provenance: may be replaced until the segment is finished. swapped: faces that were not
    only masked but replaced, summed over frames."""

    head: Head
    provenance: Provenance
    duration_s: float = 0.0
    frames: int = 0
    faces: int = 0
    swapped: int = 0
    masked_share_sum: float = 0.0
    tracks: set[int] = field(default_factory=set)
    whole_frames: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    gaps: list[Gap] = field(default_factory=list)

    @property
    def end_utc_s(self) -> float:
        """Where the last frame ends."""
        return self.head.start_utc_s + self.duration_s

    def count(self, faces: int, masked_share: float, tracks: frozenset[int], whole_reason: str | None) -> None:
        """Add a frame. whole_reason: why it was hidden whole, None where it was not."""
        self.frames += 1
        self.faces += faces
        self.masked_share_sum += masked_share
        self.tracks |= tracks
        if whole_reason is not None:
            add_reason(self.whole_frames, whole_reason)

    def add_gap(self, gap: Gap) -> None:
        """Add a gap before or within the segment."""
        if len(self.gaps) < MAX_GAPS:
            self.gaps.append(gap)
            return
        last = self.gaps[-1]
        total_s = (last.duration_s or 0.0) + (gap.duration_s or 0.0)
        self.gaps[-1] = Gap(last.start_utc_s, total_s, OTHER)

    def fields(self) -> dict[str, Any]:
        """As in a sidecar, but for the segment's own name and hash."""
        head = self.head
        return {
            "camera": head.camera, "source": self.provenance.source,
            "start_utc": utc_text(head.start_utc_s), "end_utc": utc_text(self.end_utc_s),
            "duration_s": round(self.duration_s, 6), "clock_synchronised": head.clock_synchronised,
            "recovered": False, "frames": self.frames, "faces": self.faces, "swapped": self.swapped,
            "comment": head.comment, "tracks": len(self.tracks),
            "masked_share": round(self.masked_share_sum / self.frames, 6) if self.frames else 0.0,
            "whole_frames": dict(self.whole_frames), "dropped": dict(self.dropped),
            "gaps": [gap.fields() for gap in self.gaps],
            "width_px": head.width_px, "height_px": head.height_px, "codec": head.codec, "encoder": head.encoder,
            "model": self.provenance.model, "model_sha256": self.provenance.model_sha256,
            "engine_sha256": self.provenance.engine_sha256, "runtime": self.provenance.runtime,
            "config_sha256": head.config_sha256, "software": __version__,
        }  # fmt: skip


# Of a recovered segment, where its own process could not say it any more.
UNKNOWN: dict[str, Any] = {
    "source": "", "clock_synchronised": None, "faces": None, "swapped": None, "comment": "", "tracks": None,
    "masked_share": None,
    "whole_frames": None, "dropped": None, "gaps": [], "width_px": None, "height_px": None, "codec": "",
    "encoder": "", "model": "", "model_sha256": "", "engine_sha256": "", "runtime": "", "config_sha256": "",
    "software": __version__,
}  # fmt: skip
# What a draft says that only holds for a segment that got no further.
COUNTS = ("faces", "swapped", "tracks", "masked_share", "whole_frames", "dropped")


def add_reason(counter: Counter[str], reason: str, count: int = 1) -> None:
    """Count by reason; reasons hold error texts, so both their length and their number are bounded."""
    reason = reason[:MAX_REASON_CHARS]
    counter[reason if reason in counter or len(counter) < MAX_REASONS else OTHER] += count
