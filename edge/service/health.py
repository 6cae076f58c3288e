"""Files in the runtime directory that say how the service is: replaced as a whole, as a reader needs it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

from edge.reports import ServiceStatus, to_plain
from edge.text import one_line

STATUS_FILE, HEALTH_FILE = "status.json", "health"
MAX_HEALTH_CHARACTERS = 1000


def utc_now() -> str:
    """ISO 8601 with Z, in whole seconds."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def health_line(status: ServiceStatus) -> str:
    """``ok TIME``, ``starting TIME``, ``stopping TIME`` or ``degraded TIME: what; what``."""
    word = "ok" if status.state == "running" else status.state
    problems = f": {'; '.join(status.problems)}" if status.problems else ""
    return one_line(f"{word} {status.written_utc}{problems}"[:MAX_HEALTH_CHARACTERS])


def write_status(directory: Path, status: ServiceStatus) -> None:
    """Write both files. They belong on a tmpfs (``/run``): nothing is synced. Raises OSError."""
    replace_file(directory / STATUS_FILE, json.dumps(to_plain(status), separators=(",", ":"), allow_nan=False))
    replace_file(directory / HEALTH_FILE, health_line(status) + "\n")


def remove_status(directory: Path) -> None:
    """Take both away, at the end of the service."""
    for name in (STATUS_FILE, HEALTH_FILE):
        (directory / name).unlink(missing_ok=True)


def replace_file(path: Path, text: str) -> None:
    """Give a file new content, whole or not at all. Raises OSError."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
