"""Small archives that look like recorded ones, made without recording anything."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from edge.recordings.chain import Chain
from edge.recordings.clock import utc_text
from edge.recordings.names import segment_name, sidecar_of

DAY_S = 86400.0


def add_segment(root: Path, camera: str, start_utc_s: float, size_bytes: int = 1000, duration_s: float = 60.0,
                **fields: Any) -> Path:  # fmt: skip
    """One segment with its sidecar, as the next of its camera's chain."""
    segment = segment_name(root, camera, start_utc_s)
    segment.parent.mkdir(parents=True, exist_ok=True)
    content = f"{camera}{start_utc_s}".encode().ljust(size_bytes, b".")
    segment.write_bytes(content)
    chain = Chain(root / camera)
    told = {"camera": camera, "start_utc": utc_text(start_utc_s), "end_utc": utc_text(start_utc_s + duration_s),
            "segment": {"name": segment.name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}}
    with chain.locked():
        chain.append(sidecar_of(segment), {**told, **fields})
    return segment


def names(root: Path) -> list[str]:
    """Names of the segments that are left, by camera and start."""
    return sorted(path.name for path in root.glob("*/*/*.mp4"))
