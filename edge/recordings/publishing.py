"""The last steps of a segment: hash, sidecar, final name. In this order, so that no segment is without a sidecar."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge.recordings.chain import Chain
from edge.recordings.names import draft_of, sidecar_of
from edge.storage import part_path, publish, storage_error

_CHUNK_BYTES = 1 << 20


def publish_segment(part: Path, final: Path, descriptor: int, fields: Mapping[str, Any], chain: Chain) -> int:
    """Sync the complete file `part`, open and locked as `descriptor`, add its sidecar to the chain, and rename it.

    Gives its size in bytes. Raises StorageError; what is missing then is done by `edge.recordings.recovery`.
    """
    try:
        os.fsync(descriptor)
        size_bytes, sha256 = hash_of(descriptor)
    except OSError as error:
        raise storage_error(part, error) from error
    segment = {"name": final.name, "bytes": size_bytes, "sha256": sha256}
    with chain.locked():
        chain.append(sidecar_of(final), {**fields, "segment": segment})
        publish(part, final)
    drop_draft(part)
    return size_bytes


def hash_of(descriptor: int) -> tuple[int, str]:
    """Size and SHA-256 of an open file, read in pieces; where it is read from does not change."""
    digest, at = hashlib.sha256(), 0
    while chunk := os.pread(descriptor, _CHUNK_BYTES, at):
        digest.update(chunk)
        at += len(chunk)
    return at, digest.hexdigest()


def drop_draft(part: Path) -> None:
    """Take away what was noted while `part` was written. What cannot be removed is found again by the keeper."""
    with contextlib.suppress(OSError):
        draft_of(final_of(part)).unlink(missing_ok=True)


def final_of(part: Path) -> Path:
    """The name that a `.part` would have got."""
    final = part.with_name(part.name[: -len(".part")])
    assert part_path(final) == part
    return final
