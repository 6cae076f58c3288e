"""From the values that a tensor takes to the largest that INT8 shall represent: amax.

The scale is ``amax / 127``, the zero-point 0; what is larger is clipped. Exact zeros are left out of account
everywhere: they are represented without error at every scale, and a tensor after a ReLU is mostly zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from calibration.histogram import Histogram

Method = Literal["minmax", "percentile", "entropy", "mse"]
METHODS: tuple[Method, ...] = get_args(Method)

LEVELS = 128                # magnitudes of a symmetric INT8 number: 0 to 127
PERCENTILE = 99.99
DEAD_AMAX = 127.0
"""For a tensor that was zero throughout: scale 1, as ONNX Runtime's own quantiser takes. Any value would do."""

_MSE_CANDIDATES = 256
_MAX_BLOCK = 1 << 20        # numbers at a time in the search for the least error

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TensorHistograms:
    """What was counted. tensors: by name. inputs: how many network inputs were run."""

    tensors: Mapping[str, Histogram]
    inputs: int

    def dead(self) -> tuple[str, ...]:
        """Tensors that were zero throughout: nothing is known about their range."""
        return tuple(name for name, histogram in self.tensors.items() if histogram.magnitude == 0)


def amax(histograms: TensorHistograms, method: Method, percentile: float = PERCENTILE) -> dict[str, float]:
    """amax of every tensor; finite and positive. See `amax_of`."""
    return {name: amax_of(histogram, method, percentile) for name, histogram in histograms.tensors.items()}


def amax_of(histogram: Histogram, method: Method, percentile: float = PERCENTILE) -> float:
    """amax of one tensor: finite, positive, at most its largest magnitude; `DEAD_AMAX` when it was zero throughout.

    minmax: the largest magnitude; one outlier makes every step coarse.
    percentile: the magnitude that `percentile` % of the non-zero values do not exceed, rounded up to the edge of a bin.
    entropy: least Kullback-Leibler divergence between the clipped and the quantised distribution (S. Migacz, "8-bit
        inference with TensorRT", GTC 2017), every bin from 128 on as a candidate.
    mse: least mean squared error of quantising and back.
    The last two never clip below `LEVELS` bins, which is at most 1/16 of the largest magnitude: bins tell nothing about
    rounding there.
    """
    magnitude = histogram.magnitude
    if magnitude == 0:
        return DEAD_AMAX
    if method == "minmax":
        return magnitude
    counts = histogram.nonzero_counts()
    if method == "percentile":
        bins = _percentile_bins(counts, percentile)
    elif len(counts) <= LEVELS:
        return magnitude
    elif method == "entropy":
        bins = _entropy_bins(counts)
    else:
        bins = _mse_bins(counts)
    return min(bins * histogram.bin_width, magnitude)


def _percentile_bins(counts: npt.NDArray[np.int64], percentile: float) -> int:
    cumulative = np.cumsum(counts)
    wanted = percentile / 100 * int(cumulative[-1])
    return int(np.searchsorted(cumulative, wanted)) + 1


def _entropy_bins(counts: npt.NDArray[np.int64]) -> int:
    """How many bins to keep.

    For each candidate i, P is the first i bins with everything beyond added to the last of them; Q is those bins
    without what is beyond, summed in 128 groups, each sum spread evenly over the full bins of its group. With running
    sums, the divergence of all candidates takes one table of candidates x groups instead of three nested loops.
    """
    weights = counts.astype(np.float64)
    total = weights.sum()
    sums = np.concatenate(([0.0], np.cumsum(weights)))
    full = np.concatenate(([0.0], np.cumsum(weights > 0)))
    entropies = np.concatenate(([0.0], np.cumsum(_x_log_x(weights))))
    kept = np.arange(LEVELS, len(weights) + 1)
    edges = kept[:, None] * np.arange(LEVELS + 1) // LEVELS
    group_sums = np.diff(sums[edges], axis=1)
    group_full = np.diff(full[edges], axis=1)
    beyond = total - sums[kept]
    last = weights[kept - 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        log_q = np.where(group_sums > 0, np.log(group_sums / group_full / sums[kept][:, None]), 0.0)
    p_log_p = (entropies[kept - 1] + _x_log_x(last + beyond)) / total - np.log(total)
    p_log_q = ((group_sums * log_q).sum(axis=1) + beyond * log_q[:, -1]) / total
    divergence = p_log_p - p_log_q
    # An empty last bin that takes what is beyond has P > 0 where Q = 0: infinitely far apart.
    divergence[(last == 0) & (beyond > 0)] = np.inf
    best = np.flatnonzero(divergence <= divergence.min() + 1e-12)[-1]
    return int(kept[best])


def _mse_bins(counts: npt.NDArray[np.int64]) -> int:
    """How many bins to keep. Every value counts as the middle of its bin."""
    full = np.flatnonzero(counts)
    weights, values = counts[full].astype(np.float64), full.astype(np.float64) + 0.5
    kept = np.unique(np.linspace(LEVELS, len(counts), _MSE_CANDIDATES).round().astype(np.int64))
    parts = np.array_split(kept, 1 + len(kept) * len(full) // _MAX_BLOCK)
    errors = np.concatenate([_squared_errors(values, weights, part) for part in parts])
    best = np.flatnonzero(errors <= errors.min() * (1 + 1e-12))[-1]
    return int(kept[best])


def _squared_errors(values: Float64, weights: Float64, kept: npt.NDArray[np.int64]) -> Float64:
    steps = kept[:, None] / (LEVELS - 1)
    levels = np.minimum(np.rint(values / steps), LEVELS - 1)
    errors: Float64 = (levels * steps - values) ** 2 @ weights
    return errors


def _x_log_x(values: Float64) -> Float64:
    positive = values > 0
    result = np.zeros_like(values)
    result[positive] = values[positive] * np.log(values[positive])
    return result
