"""Names in a recordings root: ``<root>/<camera>/<YYYY-MM-DD>/<camera>_<YYYYMMDDTHHMMSSZ>.mp4``, with its ``.json``.

All of it is UTC. A name that is taken gets ``_2`` and so on; a recovered segment has ``_recovered`` in its name.
"""

from __future__ import annotations

import os
import re
from datetime import datetime, timezone
from pathlib import Path

from edge.storage import BROKEN, PART, part_path

VIDEO, SIDECAR = ".mp4", ".json"
DRAFT = SIDECAR + PART          # what is known about a segment that is being written
CAMERA = re.compile(r"[A-Za-z0-9_-]{1,64}")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER = "(?:_[0-9]{1,9})?"
_START = rf"_([0-9]{{8}}T[0-9]{{6}}Z){_NUMBER}(?:_recovered{_NUMBER})?"
_ENDINGS = "|".join(re.escape(each) for each in (VIDEO, SIDECAR, DRAFT, VIDEO + PART, VIDEO + PART + BROKEN))


def segment_name(root: Path, camera: str, start_utc_s: float) -> Path:
    """Final name of a segment that starts then, with nothing on disk that would be in its way."""
    start = datetime.fromtimestamp(start_utc_s, timezone.utc)
    stem = f"{camera}_{start:%Y%m%dT%H%M%SZ}"
    folder = root / camera / f"{start:%Y-%m-%d}"
    final, number = folder / (stem + VIDEO), 2
    while any(map(os.path.lexists, (final, part_path(final), sidecar_of(final), draft_of(final)))):
        final = folder / f"{stem}_{number}{VIDEO}"
        number += 1
    return final


def sidecar_of(segment: Path) -> Path:
    """Where the sidecar of a segment is."""
    return segment.with_suffix(SIDECAR)


def draft_of(segment: Path) -> Path:
    """Where the unfinished sidecar of a segment is while that is being written."""
    return segment.with_suffix(DRAFT)


def split_name(camera: str, name: str) -> tuple[str, str] | None:
    """Stem and ending of a file name that is ours, as (``cam_20260102T030405Z``, ``.mp4``), else None."""
    match = re.fullmatch(rf"({re.escape(camera)}{_START})({_ENDINGS}){_NUMBER}", name)
    if match is None:
        return None
    try:
        _time(match[2])
    except ValueError:
        return None         # no such day: not a name that we gave
    return match[1], match[3]


def start_of(camera: str, stem: str) -> float:
    """UTC start in seconds that a stem names. Raises ValueError."""
    match = re.fullmatch(re.escape(camera) + _START, stem)
    if match is None:
        raise ValueError(f"{stem} names no time")
    return _time(match[1]).timestamp()


def _time(text: str) -> datetime:
    """Of ``YYYYMMDDTHHMMSSZ``; several times quicker than `strptime`, and archives are large. Raises ValueError."""
    year, month, day = int(text[:4]), int(text[4:6]), int(text[6:8])
    return datetime(year, month, day, int(text[9:11]), int(text[11:13]), int(text[13:15]), tzinfo=timezone.utc)
