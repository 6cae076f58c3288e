"""How a pipeline keeps up with a source that does not wait: what has no result in time is hidden whole or dropped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from edge.errors import DetectorError
from edge.reports import Histogram
from edge.settings import OnDoubt

# A frame whose faces are not known so long after it came is written without them. Inference answers within
# milliseconds, or within some hundred on a loaded machine without a GPU.
LATE_S = 1.0
# Requests at once: enough to fill a batch, few enough that each is answered in time by a slow machine.
THREADS = 4
# More frames without a result than this: later ones are not analysed, so that those before get theirs in time.
MAX_UNDER_ANALYSIS = 8

LATE, OVERLOAD, DETECTOR = "late", "overload", "detector failed"


def _name(_: DetectorError) -> str:
    return DETECTOR


@dataclass(slots=True)
class LiveFlow:
    """The rules for one live source, and what came of them; outlives its pipelines.

    on_doubt: ``redact`` hides a frame whole where faces may be missed, ``drop`` leaves it out.
    explain: a short name for why a detector failed; few different ones. on_drop: gets the reason of each dropped frame.
    latency: by stage; ``detect`` from the arrival of a frame to its result, ``look_ahead`` from there to its turn,
    ``mask``, and ``write`` the hand-over to the recorder. delay_s: from arrival to hand-over, of the newest frame.
    """

    on_doubt: OnDoubt = "redact"
    late_s: float = LATE_S
    explain: Callable[[DetectorError], str] = _name
    on_drop: Callable[[str], None] = lambda _: None
    dropped: Counter[str] = field(default_factory=Counter)
    latency: dict[str, Histogram] = field(default_factory=dict)
    delay_s: float = 0.0

    def left_s(self, arrived_s: float) -> float:
        """How long a frame that came at `arrived_s` (monotonic) may still wait for its result; 0 when it is late."""
        return max(0.0, arrived_s + self.late_s - time.monotonic())

    def drop(self, reason: str) -> None:
        """Count a frame that is left out."""
        self.dropped[reason] += 1
        self.on_drop(reason)

    def took(self, stage: str, seconds: float) -> None:
        """Count how long a stage took."""
        histogram = self.latency.get(stage)
        if histogram is None:
            histogram = self.latency[stage] = Histogram()
        histogram.add(seconds * 1e3)
