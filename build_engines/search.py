"""The measured search: build candidates, time them in turns, judge them, derive better ones from what was measured."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from build_engines.backend import BuildBackend, Built, Candidate, Timing
from build_engines.candidates import Plan, base_plan, distinct, first_plans, quicker_plan, quieter_plans
from build_engines.choice import Choice, Trial, choose, is_quicker
from build_engines.judge import Judge
from build_engines.network import Network
from build_engines.sensitivity import AmaxOf, Group, best_method, groups, measure
from build_engines.timing import by_layer
from calibration.observers import Method
from edge.errors import BuildError, DetectorError, DeviceLostError, EdgeError, UnavailableError

MAX_CANDIDATES = 12
DERIVED_ROUNDS = 2


class Display(Protocol):
    """Who is told what goes on."""

    def stage(self, text: str) -> None:
        """A new piece of work begins."""

    def step(self, done: int, total: int) -> None:
        """How far the current piece is."""

    def note(self, text: str) -> None:
        """Something that a user should read."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """precision: what may be built. batches: to time at. force_int8: see `choose`. deadline_s: on the monotonic clock;
    no new candidate is begun after it, and one in INT8 that is being built is given up."""

    precision: str = "int8"
    batches: tuple[int, ...] = (1,)
    force_int8: bool = False
    deadline_s: float = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """trials: in the order in which they were made. built, plans: by name of the trial. noise: of each group of layers.
    methods: noise at the outputs by calibration method. notes: for people."""

    base: str
    trials: tuple[Trial, ...]
    choice: Choice
    built: Mapping[str, Built]
    plans: Mapping[str, Plan]
    noise: tuple[Group, ...] = ()
    methods: Mapping[Method, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Search:
    """One network, one backend. `run` once.

    judge: says which candidates may be kept. amax_of: ranges by method; not called without INT8.
    """

    def __init__(
        self, network: Network, backend: BuildBackend, judge: Judge, amax_of: AmaxOf, options: SearchOptions,
        display: Display,
    ) -> None:      # fmt: skip
        self._network, self._backend, self._judge, self._amax_of = network, backend, judge, amax_of
        self._options, self._display = options, display
        self._trials: dict[str, Trial] = {}
        self._built: dict[str, Built] = {}
        self._plans: dict[str, Plan] = {}
        self._noise: tuple[Group, ...] = ()
        self._methods: dict[Method, float] = {}
        self._method: Method | None = None
        self._profiles: dict[str, dict[str, float]] = {}
        self._notes: list[str] = []
        self.base = _base_name(backend.name, options.precision)

    def run(self) -> SearchResult:
        """Raises UnavailableError when no candidate at all can be used, DeviceLostError when the GPU is lost."""
        self._round([base_plan(self.base)])
        if self.base == "fp16" and not self._trials[self.base].usable:
            self._note(f"FP16 cannot be used ({self._trials[self.base].why_not}); FP32 takes its place")
            self.base = "fp32"
            self._round([base_plan(self.base)])
        if self._options.precision == "int8":
            self._search_int8()
        choice = choose(list(self._trials.values()), self.base, self._options.force_int8)
        if choice.kept is None:
            reasons = "; ".join(f"{trial.name}: {trial.why_not}" for trial in self._trials.values())
            raise UnavailableError(f"{self._network.title}: no candidate can be used ({reasons})", "see docs/int8.md")
        return SearchResult(
            self.base, tuple(self._trials.values()), choice, self._built, self._plans, self._noise, self._methods,
            tuple(self._notes),
        )   # fmt: skip

    def _search_int8(self) -> None:
        plans = first_plans(self._network.layers, self._network.quantisable)
        if not plans:
            self._note("no layer of this network may run in INT8")
            return
        self._display.stage(f"{self._network.name}: comparing ways to choose ranges")
        self._method, self._methods = best_method(
            self._network, plans[min(1, len(plans) - 1)].int8, self._amax_of, self._display.step
        )
        self._round(plans)
        for _ in range(DERIVED_ROUNDS):
            derived = self._derived()
            if not derived:
                return
            self._round(derived)

    def _derived(self) -> tuple[Plan, ...]:
        """Better plans than those tried: without what is slow, or without what is noisy."""
        base = self._trials[self.base]
        new: list[Plan] = []
        for name, trial in list(self._trials.items()):
            parent = self._plans[name]
            if not parent.int8 or trial.failure or self._late():
                continue
            quick = is_quicker(trial, base)
            refused = trial.verdict is not None and not trial.verdict.passed
            if not quick and name != self.base:
                new += self._quicker(parent)
            if (quick or self._options.force_int8) and refused:
                new += quieter_plans(parent, self._measured_noise())
        room = MAX_CANDIDATES - len(self._trials)
        return distinct(new, list(self._plans.values()))[: max(0, room)]

    def _quicker(self, parent: Plan) -> tuple[Plan, ...]:
        if not self._built.get(self.base):
            return ()
        parts = groups(self._network, parent.int8)
        owners = self._network.owners()
        for name in (self.base, parent.name):
            if name not in self._profiles:
                self._display.stage(f"{self._network.name}: timing the layers of {name}")
                try:
                    times = self._backend.layer_times(self._built[name])
                except DeviceLostError:
                    raise
                except EdgeError as error:
                    self._note(f"the layers of {name} cannot be timed ({error.message})")
                    return ()
                self._profiles[name] = by_layer(times, owners)
        return quicker_plan(parent, parts, self._profiles[parent.name], self._profiles[self.base])

    def _measured_noise(self) -> tuple[Group, ...]:
        if not self._noise:
            self._display.stage(f"{self._network.name}: measuring the noise of groups of layers")
            parts = groups(self._network, self._network.quantisable)
            self._noise = measure(self._network, self._amax(), parts, self._display.step)
        return self._noise

    def _round(self, plans: Sequence[Plan]) -> None:
        """Build, time and judge some plans; everything that was built before is timed again with them."""
        for plan in plans:
            if self._late() and self._trials:
                self._note(f"{plan.name} was not tried: the time was up")
                continue
            self._plans[plan.name] = plan
            self._trials[plan.name] = self._tried(plan)
        self._time()
        for plan in plans:
            trial = self._trials.get(plan.name)
            if trial is not None and not trial.failure:
                self._trials[plan.name] = self._judged(trial)

    def _tried(self, plan: Plan) -> Trial:
        trial = Trial(plan.name, len(plan.int8))
        self._display.stage(f"{self._network.name}: building {plan.name}")
        half = plan.name != "fp32"
        try:
            graph = self._network.final(self._backend.name, self._amax() if plan.int8 else {}, plan.int8)
            deadline_s = self._options.deadline_s if plan.int8 else float("inf")      # without a base there is nothing
            candidate = Candidate(plan.name, plan.int8, graph, plan.why, half, self._method or "", deadline_s)
            self._built[plan.name] = self._backend.build(candidate, half, self._display.stage)
        except DeviceLostError:
            raise
        except (BuildError, UnavailableError) as error:
            self._note(f"{plan.name} is left out: {error}")
            return replace(trial, failure=error.message)
        return trial

    def _time(self) -> None:
        names = [name for name, trial in self._trials.items() if not trial.failure]
        for batch in self._options.batches:
            self._display.stage(f"{self._network.name}: timing {', '.join(names)} at batch {batch}")
            for timing in self._timed(names, batch):
                trial = self._trials[timing.candidate]
                others = tuple(one for one in trial.timings if one.batch != batch)
                self._trials[timing.candidate] = replace(trial, timings=(*others, timing))

    def _timed(self, names: Sequence[str], batch: int) -> list[Timing]:
        try:
            return self._backend.time([self._built[name] for name in names], batch) if names else []
        except DeviceLostError:
            raise
        except EdgeError as error:
            if len(names) == 1:
                self._fail(names[0], error)
                return []
        good = [name for name in names if self._timed([name], batch)]
        return self._timed(good, batch) if len(good) < len(names) else []

    def _judged(self, trial: Trial) -> Trial:
        self._display.stage(f"{self._network.name}: looking for faces with {trial.name}")
        try:
            runtime = self._backend.open(self._built[trial.name])
        except DeviceLostError:
            raise
        except EdgeError as error:
            self._fail(trial.name, error)
            return self._trials[trial.name]
        try:
            return replace(trial, verdict=self._judge(runtime, self._display.step))
        except DeviceLostError:
            raise
        except DetectorError as error:
            self._fail(trial.name, error)
            return self._trials[trial.name]
        finally:
            runtime.close()

    def _amax(self) -> Mapping[str, float]:
        return self._amax_of(self._method or "minmax")

    def _fail(self, name: str, error: EdgeError) -> None:
        self._note(f"{name} is left out: {error}")
        self._trials[name] = replace(self._trials[name], failure=error.message)

    def _late(self) -> bool:
        return time.monotonic() > self._options.deadline_s

    def _note(self, text: str) -> None:
        self._notes.append(text)
        self._display.note(f"{self._network.name}: {text}")


def _base_name(backend: str, precision: str) -> str:
    """A processor runs FP32; FP16 there would only be converted back and forth."""
    return "fp32" if precision == "fp32" or backend == "onnxruntime" else "fp16"

