"""The decision: which of the candidates that were built, timed and judged is kept, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from build_engines.backend import Timing

MIN_GAIN = 0.02
"""INT8 has to be quicker than the base by this much: less is lost again in the noise of another day."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says of one candidate's outputs.

    passed: whether it may be kept. why: for people, when not. scores: by name, for the manifest and the report.
    notes: what limits the claim, such as few faces. unproven: why nothing was shown; then INT8 is not kept.
    """

    passed: bool
    why: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unproven: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate and what became of it. failure: why it could not be built or run; empty when it could.

    timings, verdict: None or empty when it was not measured or judged.
    """

    name: str
    int8_layers: int
    failure: str = ""
    timings: tuple[Timing, ...] = ()
    verdict: Verdict | None = None

    @property
    def usable(self) -> bool:
        """Whether it may be kept; INT8 has to be proven."""
        verdict = self.verdict
        if self.failure or verdict is None or not verdict.passed:
            return False
        return not (self.int8_layers and verdict.unproven)

    @property
    def why_not(self) -> str:
        """What is against it, for people; empty when it is usable."""
        if self.failure:
            return self.failure
        if self.verdict is None:
            return "not judged"
        return self.verdict.why or (self.verdict.unproven if self.int8_layers else "")


@dataclass(frozen=True, slots=True)
class Choice:
    """kept: name of the candidate, None when not even the base can be. why: for people."""

    kept: str | None
    why: str


def choose(trials: Sequence[Trial], base: str, force_int8: bool = False) -> Choice:
    """The fastest that passed and, unless `force_int8`, is quicker than the base at every batch.

    trials: the base (by name) among them. Depends on nothing but its arguments, not on their order.
    """
    trials = sorted(trials, key=lambda trial: (trial.name != base, trial.name))
    passed = [trial for trial in trials if trial.usable]
    float_one = next((trial for trial in passed if trial.name == base), None)
    int8 = [trial for trial in passed if trial.int8_layers and trial.timings]
    judged = [trial for trial in trials if trial.int8_layers and not trial.failure and trial.verdict is not None]
    if force_int8 and int8:
        best = min(int8, key=lambda trial: (pace(trial), trial.name))
        return Choice(best.name, f"the fastest in INT8 that finds the faces, as forced{_compared(best, float_one)}")
    quicker = [trial for trial in int8 if float_one is None or is_quicker(trial, float_one)]
    if quicker:
        best = min(quicker, key=lambda trial: (pace(trial), trial.name))
        return Choice(best.name, f"the fastest that finds the faces{_compared(best, float_one)}")
    if float_one is None:
        return Choice(None, "no candidate can be used")
    if not any(trial.int8_layers for trial in trials):
        return Choice(base, "no INT8 was asked for or possible")
    if not judged:
        return Choice(base, "no INT8 candidate could be built and judged")
    if not int8:
        closest = min(judged, key=lambda trial: (pace(trial), trial.name))
        return Choice(base, f"no INT8 candidate may be kept: {closest.name}: {closest.why_not}")
    best = min(int8, key=lambda trial: (pace(trial), trial.name))
    return Choice(base, f"INT8 is not faster here: {best.name}{_compared(best, float_one)}")


def is_quicker(trial: Trial, base: Trial) -> bool:
    """At no batch slower, and over all batches quicker by `MIN_GAIN`."""
    ratios = speedups(trial, base)
    return bool(ratios) and min(ratios.values()) >= 1 and _geometric_mean(list(ratios.values())) >= 1 + MIN_GAIN


def speedups(trial: Trial, base: Trial) -> dict[int, float]:
    """How many times as fast as the base, by batch, for the batches that both were timed at."""
    times = {timing.batch: timing.median_ms for timing in base.timings}
    return {one.batch: times[one.batch] / one.median_ms for one in trial.timings if one.batch in times}


def pace(trial: Trial) -> float:
    """Geometric mean of the times per picture over all batches, ms; infinity when it was not timed."""
    if not trial.timings:
        return math.inf
    return _geometric_mean([timing.median_ms / timing.batch for timing in trial.timings])


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def _compared(trial: Trial, base: Trial | None) -> str:
    ratios = {} if base is None else speedups(trial, base)
    if base is None or not ratios:
        return ""
    text = ", ".join(f"{ratio:.2f} times as fast as {base.name} at batch {batch}" for batch, ratio in ratios.items())
    return f", {text}"
