"""Reads the status file that the daemon replaces once a second; never talks to the daemon itself."""

from __future__ import annotations

import json
import time
from pathlib import Path

from edge.errors import RetryLater, UnavailableError
from edge.reports import ServiceStatus, from_plain
from edge.service.health import STATUS_FILE
from edge.status.text import duration

STALE_S = 10.0
MAX_BYTES = 16 << 20


def read_status(runtime_dir: Path) -> ServiceStatus:
    """The newest status, however old. Raises UnavailableError when there is none that can be read."""
    path = runtime_dir / STATUS_FILE
    try:
        with path.open("rb") as file:
            status = from_plain(json.loads(file.read(MAX_BYTES)))
    except (FileNotFoundError, NotADirectoryError):
        raise UnavailableError(
            f"there is no {path}", "is edge-daemon running (systemctl status edge)? --runtime-dir names another place"
        ) from None
    except PermissionError:
        raise UnavailableError(f"{path} may not be read", "run this as root or as a member of the group edge") from None
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, ServiceStatus):
        raise UnavailableError(f"{path} is no status", "was it written by another version of edge-daemon?")
    return status


def age_s(status: ServiceStatus) -> float:
    """Seconds since it was written. Negative where it was written before the machine was started."""
    return time.monotonic() - status.written_monotonic_s


def refuse_stale(status: ServiceStatus) -> None:
    """Raise RetryLater when the daemon has stopped to write: what it wrote last says nothing about now."""
    age = age_s(status)
    if not -1.0 <= age <= STALE_S:
        when = f"{duration(age)} ago" if age > 0 else f"before this machine was started, at {status.written_utc}"
        raise RetryLater(
            f"the status is old: edge-daemon wrote it last {when}",
            "is it running (systemctl status edge)? journalctl -u edge says what happened",
        )
