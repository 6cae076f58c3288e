"""What the daemon's processes tell their supervisor, and what the supervisor tells the world: plain values as JSON.

Children decode hostile streams, so what they send is parsed as data (JSON into these types), never unpickled.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from functools import lru_cache
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

# "failed" is said by the supervisor of a camera whose process ended with 78.
CameraState = Literal[
    "starting", "connecting", "recording", "backing_off", "disk_paused", "off_schedule", "stopping", "failed"
]
Level = Literal["debug", "info", "warning", "error"]

# Upper ends of latency buckets in milliseconds; one more bucket takes what is longer.
LATENCY_BUCKETS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


@dataclass(slots=True)
class Histogram:
    """Counts per bucket of `LATENCY_BUCKETS_MS`, not cumulative; their number and sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS_MS) + 1))
    count: int = 0
    sum_ms: float = 0.0

    def add(self, milliseconds: float) -> None:
        """Count one value."""
        index = next((i for i, end in enumerate(LATENCY_BUCKETS_MS) if milliseconds <= end), len(LATENCY_BUCKETS_MS))
        self.counts[index] += 1
        self.count += 1
        self.sum_ms += milliseconds


@dataclass(slots=True)
class CameraReport:
    """State of one camera process, sent about once a second from its main loop. Counters grow from its start.

    detail: the state in words, one line. progress: grows whenever something was achieved: a frame written, or, in a
    waiting state, one more look at what is waited for.
    frames_in: decoded; frames_out: written; faces: regions masked, summed over frames. whole_frames, dropped: by
    reason.
    delay_s: from the arrival of a frame to its hand-over to the encoder, newest; holds the look-ahead.
    latency: by stage (``detect``, ``look_ahead``, ``mask``, ``write``, ``segment``).
    since_utc: when the state began, ISO 8601 with Z.
    """

    camera: str
    state: CameraState = "starting"
    detail: str = ""
    progress: int = 0
    source: str = ""
    width_px: int = 0
    height_px: int = 0
    decoder: str = ""
    encoder: str = ""
    detector: str = ""
    frames_in: int = 0
    frames_out: int = 0
    fps_in: float = 0.0
    fps_out: float = 0.0
    faces: int = 0
    tracks: int = 0
    masked_share: float = 0.0
    whole_frames: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    delay_s: float = 0.0
    latency: dict[str, Histogram] = field(default_factory=dict)
    reconnects: int = 0
    segments: int = 0
    bytes_written: int = 0
    segment: str = ""
    since_utc: str = ""


@dataclass(slots=True)
class InferenceReport:
    """State of the inference process. models: for people, model and runtime. batches: batch size (text) -> runs.

    run_ms: time of one run on the device; wait_ms: from the arrival of a request to the start of its run.
    late: requests given up because their time was over. clients: cameras connected now.
    """

    state: Literal["starting", "loading", "ready", "stopping"] = "starting"
    detail: str = ""
    progress: int = 0
    models: list[str] = field(default_factory=list)
    clients: int = 0
    requests: int = 0
    failures: int = 0
    late: int = 0
    batches: dict[str, int] = field(default_factory=dict)
    run_ms: Histogram = field(default_factory=Histogram)
    wait_ms: Histogram = field(default_factory=Histogram)


@dataclass(slots=True)
class RootReport:
    """One recordings root. state: ``ok``, ``low`` (deleting does not help: recording pauses), ``read_only``,
    ``missing`` (the file system is not mounted) or ``failed``."""

    directory: str
    state: str = "ok"
    detail: str = ""
    free_bytes: int = 0
    floor_bytes: int = 0
    used_bytes: int = 0
    segments: int = 0
    deleted: int = 0
    recovered: int = 0
    broken: int = 0


@dataclass(slots=True)
class KeeperReport:
    """State of the process that recovers, deletes and watches the disks."""

    state: Literal["starting", "recovering", "watching", "stopping"] = "starting"
    progress: int = 0
    roots: list[RootReport] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Event:
    """One line for the journal. key: events with the same key repeat each other and may be counted instead of shown.

    text: one line, without secrets. subject: camera name, ``inference``, ``keeper``; empty for the service itself.
    """

    level: Level
    key: str
    text: str
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Fatal:
    """The last word of a child: why it ends. exit_code as in docs/architecture.md; 78 is not tried again until the
    configuration or the engines change."""

    text: str
    exit_code: int


Report = CameraReport | InferenceReport | KeeperReport | Event | Fatal


@dataclass(slots=True)
class BoardReport:
    """What the board says about itself; None and empty where unknown. Temperatures by zone in degrees Celsius."""

    temperatures_c: dict[str, float] = field(default_factory=dict)
    gpu_load: float | None = None            # 0 to 1
    gpu_memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    power_w: float | None = None
    power_mode: str = ""
    throttled: dict[str, int] = field(default_factory=dict)   # cause -> events since boot
    fan_rpm: int | None = None


@dataclass(slots=True)
class ProcessReport:
    """A child as its supervisor sees it. state: ``running``, ``backing_off``, ``failed`` (exit 78) or ``stopping``."""

    name: str
    state: str
    pid: int | None = None
    restarts: int = 0
    killed_hung: int = 0
    last_error: str = ""


@dataclass(slots=True)
class ServiceStatus:
    """All that `edge-status` and the metrics show. written_utc: ISO 8601 with Z; the monotonic time is for its age."""

    version: str
    pid: int
    state: Literal["starting", "running", "degraded", "stopping"]
    started_utc: str
    written_utc: str
    written_monotonic_s: float
    config_path: str
    config_sha256: str
    last_reload: str = ""
    cameras: list[CameraReport] = field(default_factory=list)
    inference: InferenceReport | None = None
    keeper: KeeperReport | None = None
    board: BoardReport | None = None
    processes: list[ProcessReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


_INT_END = 1 << 63
_TYPES: dict[str, type] = {
    each.__name__: each
    for each in (CameraReport, InferenceReport, RootReport, KeeperReport, Event, Fatal, BoardReport, ProcessReport,
                 ServiceStatus, Histogram)
}


def to_plain(report: Any) -> dict[str, Any]:
    """A report as values that JSON holds; ``type`` names its class."""
    return {"type": type(report).__name__, **dataclasses.asdict(report)}


def from_plain(values: Any) -> Any:
    """The report that `to_plain` was given, every value of the declared type. Raises ValueError for anything else."""
    if not isinstance(values, dict) or not isinstance(values.get("type"), str) or values["type"] not in _TYPES:
        raise ValueError("not a report")
    return _parse(_TYPES[values["type"]], {key: value for key, value in values.items() if key != "type"})


@lru_cache
def _hints(report: type) -> dict[str, Any]:
    return get_type_hints(report)


def _parse(hint: Any, value: Any) -> Any:
    """`value` as what `hint` says: a report, a list or dictionary of such, a literal, or a plain value."""
    origin, arguments = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return _parse_report(hint, value)  # type: ignore[arg-type]
    if origin is list and isinstance(value, list):
        return [_parse(arguments[0], each) for each in value]
    if origin is dict and isinstance(value, dict):
        return {key: _parse(arguments[1], each) for key, each in value.items()}
    if origin is Literal and value in arguments:
        return value
    if origin is UnionType:
        return None if value is None else _parse(arguments[0], value)
    if hint is float and type(value) is int and abs(value) < _INT_END:
        return float(value)
    if type(value) is hint and _is_sound(value):
        return value
    raise ValueError(f"{value!r:.80} is no {hint}")


def _is_sound(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < _INT_END


def _parse_report(report: type, values: Any) -> Any:
    hints = _hints(report)
    if not isinstance(values, dict) or not values.keys() <= hints.keys():
        raise ValueError(f"{values!r:.80} is no {report.__name__}")
    try:
        return report(**{key: _parse(hints[key], value) for key, value in values.items()})
    except TypeError as error:          # one is missing
        raise ValueError(f"{report.__name__}: {error}") from None
