"""JSON lines beside an output: what was masked where, frame by frame. Boxes only; never pixels or embeddings."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from edge import __version__
from edge.anonymize.gate import SafeFrame
from edge.errors import StorageError
from edge.storage import create_part, part_path, publish
from edge.types import Frame, Region


def sidecar_path(output: Path) -> Path:
    """Where the sidecar of an output file goes: its full name plus ``.jsonl``."""
    return output.with_name(output.name + ".jsonl")


class Sidecar:
    """Writes `path` line by line under a ``.part`` name; `publish` gives it its final name.

    The first line describes the run, each further line one frame: ``{"frame", "epoch", "pts_s", "redaction",
    "regions": [{"track", "origin", "box": [x1, y1, x2, y2]}], "swapped": [tracks]}``, boxes in pixels of the output,
    before mask scale. swapped: whose faces were not only masked but replaced; left out where nobody's is.
    """

    def __init__(self, path: Path, overwrite: bool, head: dict[str, Any]) -> None:
        self._path = path
        self._overwrite = overwrite
        self._part = part_path(path)
        self._published = self._kept = False
        self._file: IO[str] = os.fdopen(create_part(path, overwrite), "w", encoding="utf-8")
        self._line({"edge": __version__, **head})

    def frame(self, frame: Frame, regions: Sequence[Region], safe: SafeFrame) -> None:
        """Add one frame."""
        self._line(
            {
                "frame": frame.index,
                "epoch": frame.epoch,
                "pts_s": round(frame.pts_ns / 1e9, 6),
                "redaction": safe.redaction,
                "regions": [
                    {"track": r.track_id, "origin": r.origin, "box": [round(v, 1) for v in r.box]} for r in regions
                ],
                **({"swapped": list(safe.swapped)} if safe.swapped else {}),
            }
        )

    def _line(self, value: dict[str, Any]) -> None:
        self._file.write(json.dumps(value, separators=(",", ":")) + "\n")

    def publish(self) -> Path:
        """Complete the file and give it its final name; returns that. Call it before the output gets its own, and
        `keep` after: no output may be without its sidecar. Raises StorageError."""
        try:
            self._file.flush()
            publish(self._part, self._path, overwrite=self._overwrite)
            self._published = True
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"{self._path}: {error.strerror or error}", "check the disk") from error
        return self._path

    def keep(self) -> None:
        """The output has its final name, too: from here on `abort` leaves the sidecar."""
        self._kept = True
        self._file.close()      # and with it the lock, which is needed no longer

    def abort(self) -> None:
        """Leave no sidecar behind: what it describes was not finished. Nothing after `keep`."""
        if self._kept:
            return
        with contextlib.suppress(OSError):      # what cannot be removed or written any more is not wanted either
            (self._path if self._published else self._part).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._file.close()
