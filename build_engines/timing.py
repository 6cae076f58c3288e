"""Timing in turns, and which layers the time of a runtime's layers belongs to."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from build_engines.backend import Timing

ROUNDS = 5
RUNS = 4
WARM_UP_RUNS = 2


def time_in_turns(
    names: Sequence[str], runs: Sequence[Callable[[], object]], batch: int, rounds: int = ROUNDS, each: int = RUNS
) -> list[Timing]:
    """Call each of `runs` many times, a few at a time in turns, so that heat and other load hit all alike."""
    for run in runs:
        for _ in range(WARM_UP_RUNS):
            run()
    taken: list[list[float]] = [[] for _ in runs]
    for number in range(rounds):
        turn = list(zip(runs, taken, strict=True))
        for run, times in turn if number % 2 == 0 else turn[::-1]:      # nobody always follows the same neighbour
            for _ in range(each):
                started_s = time.perf_counter()
                run()
                times.append((time.perf_counter() - started_s) * 1e3)
    return [timing(name, batch, times) for name, times in zip(names, taken, strict=True)]


def timing(name: str, batch: int, times_ms: Sequence[float]) -> Timing:
    """Median, and the distance between the quartiles."""
    low, middle, high = statistics.quantiles(times_ms, n=4)
    return Timing(name, batch, middle, high - low, len(times_ms))


def by_layer(times_ms: Mapping[str, float], owners: Mapping[str, str]) -> dict[str, float]:
    """Milliseconds per layer of the graph, from those per layer of the runtime.

    owners: the layer that each tensor belongs to, see `build_engines.network.Network.owners`. A runtime's layer belongs
    to the layers of the tensors that its name holds (fused ones name several), in equal shares; what names none, such
    as a reformat, to the one that ran before it. Every layer is in the result.
    """
    shares = dict.fromkeys(owners.values(), 0.0)
    by_length = sorted(owners, key=len, reverse=True)
    last: list[str] = []
    for name, milliseconds in times_ms.items():
        last = list(dict.fromkeys(owners[tensor] for tensor in _named(name, by_length))) or last
        for layer in last:
            shares[layer] += milliseconds / len(last)
    return shares


def _named(name: str, by_length: Sequence[str]) -> list[str]:
    """Tensors named in `name`, longest first; a name that is part of a longer one that was found does not count."""
    found: list[str] = []
    rest = name
    for tensor in by_length:
        if _holds(rest, tensor):
            found.append(tensor)
            rest = rest.replace(tensor, "\0")
    return found


def _holds(text: str, name: str) -> bool:
    """Whether `name` stands in `text` as a whole, suffixes such as ``_nchwc`` aside: ``12`` is not in ``conv123``."""
    start = text.find(name)
    while start >= 0:
        before, after = text[max(0, start - 1) : start], text[start + len(name) : start + len(name) + 1]
        if not (before.isalnum() or before == "_") and not after.isalnum():
            return True
        start = text.find(name, start + 1)
    return False
