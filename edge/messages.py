"""What the command line and its worker process tell each other; plain values that pickle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from edge.settings import RunSettings


@dataclass(slots=True)
class Summary:
    """Totals of one job so far.

    frames: written. faces: face-frames, i.e. regions masked, summed over frames. tracks: different tracks.
    masked_share_sum: sum over frames of the share of the picture that was masked; see `masked_share`.
    whole_frames: frames masked whole, by reason. detector_failures: those of them where the detector failed.
    ended_early: why the input ended before its end, or None.
    """

    frames: int = 0
    faces: int = 0
    tracks: int = 0
    masked_share_sum: float = 0.0
    whole_frames: Counter[str] = field(default_factory=Counter)
    detector_failures: int = 0
    ended_early: str | None = None
    stopped: bool = False
    elapsed_s: float = 0.0

    @property
    def masked_share(self) -> float:
        """Mean share of the picture that was masked, 0 to 1."""
        return self.masked_share_sum / self.frames if self.frames else 0.0

    @property
    def frames_per_s(self) -> float:
        """Frames written per second of wall time."""
        return self.frames / self.elapsed_s if self.elapsed_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """One input to one output. kind: ``video`` (files and folders of frames), ``stream`` or ``picture``."""

    kind: str
    source: str
    output: Path
    settings: RunSettings
    models_dir: Path | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Started:
    """The worker has opened the input. frames: estimate, None when unknown. ran_on: what does the work, for people."""

    frames: int | None
    ran_on: dict[str, str]


@dataclass(frozen=True, slots=True)
class Progress:
    """Sent about five times a second."""

    summary: Summary


@dataclass(frozen=True, slots=True)
class Note:
    """Something that the user should know although the job goes on."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The job is done and its files have their final names."""

    summary: Summary
    outputs: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The job failed; `exit_code` as in docs/architecture.md. worker_ends: no other job would work in that process."""

    message: str
    exit_code: int
    worker_ends: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """Sent to the worker: read no further, finish what has been read."""


class Reporter(Protocol):
    """What a job tells while it runs, and asks. Implemented by the worker process."""

    def announce(self, started: Started) -> None: ...

    def note(self, text: str) -> None: ...

    def progress(self, summary: Summary) -> None: ...

    def stop_requested(self) -> bool: ...


Message = Started | Progress | Note | Finished | Failed
