"""What a killed process or a power cut left: every `.part` becomes a segment with a sidecar, or is set aside.

The lock of a `.part` says whether somebody writes it, so cameras may record while this runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edge.errors import StorageError
from edge.recordings.chain import Chain, folders_in
from edge.recordings.clock import utc_of, utc_text
from edge.recordings.ledger import COUNTS, UNKNOWN, Gap
from edge.recordings.mp4 import Length, length_of
from edge.recordings.names import VIDEO, draft_of, sidecar_of, split_name, start_of
from edge.recordings.publishing import drop_draft, final_of, hash_of, publish_segment
from edge.reports import Level
from edge.storage import PART, claim, free_name, publish, set_aside, whole_fragments_bytes

INTERRUPTED = "interrupted"
_MAX_DRAFT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a `.part`. kind: ``recovered``, ``finished`` (only its name was missing), ``broken`` (set aside)
    or ``empty`` (removed)."""

    kind: Literal["recovered", "finished", "broken", "empty"]
    path: Path
    duration_s: float = 0.0


def orphans(folder: Path) -> Iterator[Path]:
    """The `.part` files of a camera's directory, whether or not somebody writes them. Raises OSError."""
    for day in folders_in(folder):
        with os.scandir(folder / day) as entries:
            names = sorted(entry.name for entry in entries
                           if entry.name.endswith(PART) and entry.is_file(follow_symlinks=False))
        for name in names:
            parts = split_name(folder.name, name)
            if parts is not None and name == parts[0] + VIDEO + PART:
                yield folder / day / name


def recover_camera(folder: Path) -> list[Outcome]:
    """Recover all orphans of a camera's directory. Raises OSError (StorageError) for the disk, once all were tried."""
    found: list[Outcome] = []
    failure: OSError | None = None
    for part in orphans(folder):
        try:
            outcome = recover_part(part, Chain(folder))
        except OSError as error:        # the others may fare better
            failure = error
            continue
        if outcome is not None:
            found.append(outcome)
    if failure is not None and not found:
        raise failure
    return found


def recover_part(part: Path, chain: Chain) -> Outcome | None:
    """Recover one `.part`; None where somebody writes it, or it is none of ours. Raises OSError (StorageError)."""
    try:
        descriptor = claim(part)
    except (StorageError, FileNotFoundError):
        return None
    try:
        if os.fstat(descriptor).st_size == 0:
            part.unlink()
            drop_draft(part)
            return Outcome("empty", part)
        if _has_sidecar(part, descriptor, chain):
            publish(part, final_of(part))
            drop_draft(part)
            return Outcome("finished", final_of(part))
        return _recover_locked(part, descriptor, chain)
    finally:
        os.close(descriptor)


def describe(outcome: Outcome) -> tuple[Level, str, str]:
    """Level, key and text of the event about something recovered."""
    name = outcome.path.name
    if outcome.kind == "broken":
        return "warning", "recording-broken", f"{name}: holds nothing that plays; set aside"
    if outcome.kind == "empty":
        return "info", "recording-empty", f"{name}: nothing had been written; removed"
    return "info", "recording-recovered", f"{name}: recovered, {outcome.duration_s:.1f} s"


def _recover_locked(part: Path, descriptor: int, chain: Chain) -> Outcome:
    final = final_of(part)
    # After an error of the disk, memory still holds what never got there. What counts is what the disk holds.
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    with os.fdopen(os.dup(descriptor), "r+b") as file:
        playable = whole_fragments_bytes(file)
        length = Length(0, 0.0)
        with contextlib.suppress(ValueError):
            if playable:
                file.truncate(playable)
                length = length_of(file)
    if not length.frames:
        return Outcome("broken", set_aside(part))
    target = final.with_name(f"{final.stem}_recovered{VIDEO}")
    while target.exists() or sidecar_of(target).exists():
        target = free_name(target) if target.exists() else free_name(sidecar_of(target)).with_suffix(VIDEO)
    fields = _fields(chain.folder.name, final, length)
    publish_segment(part, target, descriptor, fields, chain)
    return Outcome("recovered", target, length.duration_s)


def _fields(camera: str, final: Path, length: Length) -> dict[str, Any]:
    """The sidecar: what its draft knew, and what the file itself says."""
    draft = _draft(final)
    start_utc_s = start_of(camera, final.stem)
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError):
        noted_utc_s = utc_of(draft["start_utc"])
        if abs(noted_utc_s - start_utc_s) < 2.0:        # the name has whole seconds
            start_utc_s = noted_utc_s
    end_utc_s = start_utc_s + length.duration_s
    known = {key: value for key, value in draft.items() if key in UNKNOWN and key not in COUNTS}
    fields = UNKNOWN | known | {
        "camera": camera, "recovered": True, "start_utc": utc_text(start_utc_s), "end_utc": utc_text(end_utc_s),
        "frames": length.frames, "duration_s": round(length.duration_s, 6),
    }  # fmt: skip
    gaps = fields["gaps"] if isinstance(fields["gaps"], list) else []
    return fields | {"gaps": [*gaps, Gap(end_utc_s, None, INTERRUPTED).fields()]}


def _draft(final: Path) -> dict[str, Any]:
    try:
        descriptor = os.open(draft_of(final), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return {}
            values = json.loads(file.read(_MAX_DRAFT_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _has_sidecar(part: Path, descriptor: int, chain: Chain) -> bool:
    """Whether only the final name is missing: the sidecar is there and tells of exactly this file."""
    sidecar = sidecar_of(final_of(part))
    try:
        segment = chain.read(str(sidecar.relative_to(chain.folder))).fields["segment"]
        return (segment["bytes"], segment["sha256"]) == hash_of(descriptor)
    except (OSError, ValueError, KeyError, TypeError):
        return False
