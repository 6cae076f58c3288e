"""The values of one tensor over many runs, in bounded memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 4096
_LOG2_BINS = 12
# The range is never smaller than 2**_MIN_EXPONENT, so that bins per unit stay a normal float32.
_MIN_EXPONENT = -100
_BLOCK = 1 << 16        # values at a time: what is in between stays in the processor's cache

Counts = npt.NDArray[np.int64]


class NotFiniteError(ValueError):
    """A tensor held NaN or infinity."""


@dataclass(slots=True, eq=False)
class Histogram:
    """Counts of absolute values in `BINS` bins of equal width over [0, 2**exponent).

    The range is a power of two: it doubles when a larger value comes, and pairs of bins are added up. Bin edges of the
    small range are edges of the large one and scaling by a power of two is exact, so the result depends neither on the
    order of the values nor on how they were split up, and two histograms can be merged without loss.

    minimum, maximum: of the values themselves, signed; 0 when there are none. values: how many were counted. zeros: how
    many of those were exactly zero; they are in bin 0, too. exponent: None until a value other than zero comes.
    """

    counts: Counts = field(default_factory=lambda: np.zeros(BINS, np.int64))
    exponent: int | None = None
    minimum: float = 0.0
    maximum: float = 0.0
    values: int = 0
    zeros: int = 0

    @property
    def magnitude(self) -> float:
        """Largest absolute value."""
        return max(-self.minimum, self.maximum, 0.0)

    @property
    def bin_width(self) -> float:
        """Width of one bin, in units of the tensor; 0 while everything is zero."""
        return 0.0 if self.exponent is None else math.ldexp(1.0, self.exponent - _LOG2_BINS)

    def nonzero_counts(self) -> Counts:
        """Counts without the exact zeros, which every scale represents without error; cut after the last full bin."""
        counts: Counts = self.counts.copy()
        counts[0] -= self.zeros
        full = np.flatnonzero(counts)
        return counts[: full[-1] + 1] if len(full) else counts[:0]

    def add(self, values: npt.NDArray[Any], every: int = 1) -> None:
        """Count the values of a tensor of any shape. Raises NotFiniteError, and then counts none of them.

        every: look at each such value only, and let it stand for that many, so that large tensors keep their weight;
        the extremes and the check are of all values. Counting takes about 3 ns per value on one x86 core (np.histogram
        12 to 24, cv2.calcHist 5), the rest 0.3 ns.
        """
        if values.size == 0:
            return
        with np.errstate(over="ignore"):
            flat = values.reshape(-1).astype(np.float32, copy=False)
        low, high = float(flat.min()), float(flat.max())        # NaN comes through both
        if not (math.isfinite(low) and math.isfinite(high)):
            raise NotFiniteError("values that are not finite")
        self._include(low, high)
        flat = flat[::every]
        self.values += flat.size * every
        exponent = self.exponent
        if exponent is None:
            self.counts[0] += flat.size * every
            self.zeros += flat.size * every
            return
        per_unit = np.float32(math.ldexp(1.0, _LOG2_BINS - exponent))
        for start in range(0, flat.size, _BLOCK):
            magnitudes = np.abs(flat[start : start + _BLOCK])
            self.zeros += every * int(np.count_nonzero(magnitudes == 0))
            magnitudes *= per_unit
            self.counts += every * np.bincount(magnitudes.astype(np.intp), minlength=BINS)

    def merge(self, other: Histogram) -> None:
        """Add what `other` has counted."""
        if other.values == 0:
            return
        self._include(other.minimum, other.maximum)
        self.values += other.values
        self.zeros += other.zeros
        counts = other.counts
        if self.exponent is not None and other.exponent is not None:
            counts = _widened(counts, self.exponent - other.exponent)
        self.counts += counts

    def _include(self, low: float, high: float) -> None:
        if self.values == 0:
            self.minimum, self.maximum = low, high
        else:
            self.minimum, self.maximum = min(self.minimum, low), max(self.maximum, high)
        if self.magnitude == 0:
            return
        # magnitude = m * 2**exponent with 0.5 <= m < 1: strictly inside the range
        exponent = max(math.frexp(self.magnitude)[1], _MIN_EXPONENT)
        if self.exponent is not None and exponent > self.exponent:
            self.counts = _widened(self.counts, exponent - self.exponent)
        self.exponent = exponent


def _widened(counts: Counts, doublings: int) -> Counts:
    """The same counts over a range 2**doublings times as large."""
    if doublings == 0:
        return counts
    wide = np.zeros_like(counts)
    if doublings >= _LOG2_BINS:
        wide[0] = counts.sum()
    else:
        kept = BINS >> doublings
        wide[:kept] = counts.reshape(kept, -1).sum(axis=1)
    return wide
