"""What the search needs from whatever builds, opens and times a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from calibration.observers import Method

if TYPE_CHECKING:
    from edge.device import Device
    from edge.inference.runtime import Runtime

BackendName = Literal["tensorrt", "onnxruntime"]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One way to build a network.

    int8: names of the layers that run in INT8. graph: serialised ONNX as the backend wants it. half: whether the rest
    may run in FP16. why: for people. method: how the ranges of INT8 were chosen; empty without INT8. deadline_s: on the
    monotonic clock; a build that takes longer is given up.
    """

    name: str
    int8: frozenset[str]
    graph: bytes
    why: str = ""
    half: bool = True
    method: Method | Literal[""] = ""
    deadline_s: float = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A candidate that was built. payload: what `BuildBackend.open` reads. log_tail: what the library said last."""

    candidate: Candidate
    payload: Path
    bytes: int
    log_tail: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Timing:
    """Time of one batch, copies aside. spread_ms: between the quartiles of `runs` runs. gpu_mhz, memory_mhz: clocks
    under that load; None where the machine does not say, or no GPU ran."""

    candidate: str
    batch: int
    median_ms: float
    spread_ms: float
    runs: int
    gpu_mhz: float | None = None
    memory_mhz: float | None = None


class BuildBackend(Protocol):
    """Builds for this machine. Everything it makes lies in its own work directory."""

    @property
    def name(self) -> BackendName:
        """Which one it is."""

    def describe(self) -> Device:
        """This machine."""

    def build(self, candidate: Candidate, half: bool = True, progress: Tell = print) -> Built:
        """Build; `progress` gets lines for people. Raises BuildError with what the library said last."""

    def open(self, built: Built) -> Runtime:
        """Load what was built. Raises UnavailableError when it is refused."""

    def time(self, built: Sequence[Built], batch: int) -> list[Timing]:
        """Time several in turns, so that heat and other load hit all alike."""

    def layer_times(self, built: Built) -> dict[str, float]:
        """Milliseconds per layer of the runtime, in order; names hold the names of the graph's nodes."""
