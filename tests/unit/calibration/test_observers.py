"""amax by every method, against what the methods are defined as."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibration.histogram import Histogram
from calibration.observers import DEAD_AMAX, LEVELS, METHODS, Method, TensorHistograms, amax, amax_of

Array = npt.NDArray[Any]
FLOATS = st.floats(-(2.0**99), 2.0**99, width=32, allow_subnormal=False)
RANDOM = np.random.default_rng(3)

SHAPES = {
    "normal": RANDOM.standard_normal(50_000),
    "relu": np.maximum(RANDOM.standard_normal(50_000), 0),
    "laplace": RANDOM.laplace(size=50_000),
    "uniform": RANDOM.uniform(-1, 1, 50_000),
    "heavy tail": RANDOM.standard_t(3, 50_000),
    "two humps": np.concatenate([RANDOM.normal(0, 0.1, 45_000), RANDOM.normal(8, 0.5, 5_000)]),
}


def counted(values: Array) -> Histogram:
    histogram = Histogram()
    histogram.add(np.asarray(values, np.float32))
    return histogram


@settings(deadline=None, max_examples=60)
@given(arrays(np.float32, st.integers(1, 300), elements=FLOATS), st.sampled_from(METHODS))
def test_amax_is_positive_and_at_most_the_largest(values: Array, method: Method) -> None:
    largest = float(np.abs(values).max())
    found = amax_of(counted(values), method)
    assert math.isfinite(found)
    assert 0 < found <= largest if largest else found == DEAD_AMAX


@settings(deadline=None, max_examples=60)
@given(arrays(np.float32, st.integers(1, 300), elements=FLOATS), st.sampled_from(METHODS), st.integers(-20, 20))
def test_scaling_the_values_scales_amax(values: Array, method: Method, power: int) -> None:
    values = values[np.abs(values) > 1e-20]
    if len(values):
        scaled = amax_of(counted(np.ldexp(values, power)), method)
        assert scaled == math.ldexp(amax_of(counted(values), method), power)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [255.0, -3.0, 1e-12, -1e35, 0.0])
def test_a_constant_keeps_its_value(method: Method, value: float) -> None:
    expected = abs(np.float32(value)) or DEAD_AMAX
    assert amax_of(counted(np.full(1000, value)), method) == expected


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_signs_and_zeros_do_not_matter(method: Method, shape: str) -> None:
    values = SHAPES[shape]
    expected = amax_of(counted(values), method)
    assert amax_of(counted(-np.abs(values)), method) == expected
    assert amax_of(counted(np.concatenate([values, np.zeros(200_000)])), method) == expected


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("percentile", [90.0, 99.0, 99.99, 100.0])
def test_percentile_is_at_most_one_bin_above(shape: str, percentile: float) -> None:
    histogram = counted(SHAPES[shape])
    magnitudes = np.abs(SHAPES[shape].astype(np.float32))
    exact = np.percentile(magnitudes[magnitudes > 0], percentile, method="inverted_cdf")
    found = amax_of(histogram, "percentile", percentile)
    assert exact <= found <= exact + histogram.bin_width


@pytest.mark.parametrize("shape", SHAPES)
def test_entropy_is_the_published_algorithm(shape: str) -> None:
    histogram = counted(SHAPES[shape])
    counts = histogram.nonzero_counts().astype(np.float64)
    found = amax_of(histogram, "entropy") / histogram.bin_width
    candidates = [LEVELS, 777, 1500, len(counts) - 1, len(counts)]
    at = min(len(counts), round(found))
    divergences = [divergence(counts, bins) for bins in candidates]
    assert divergence(counts, at) <= min(divergences) + 1e-9


def divergence(counts: Array, bins: int) -> float:
    """As in the slides: fold what is beyond into the last bin, quantise to 128 levels, expand, compare."""
    reference = counts[:bins].copy()
    reference[-1] += counts[bins:].sum()
    quantised = np.zeros(bins)
    for level in range(LEVELS):
        start, end = level * bins // LEVELS, (level + 1) * bins // LEVELS
        group = counts[start:end]
        if (group > 0).any():
            quantised[start:end][group > 0] = group.sum() / (group > 0).sum()
    p, q = reference / reference.sum(), quantised / quantised.sum()
    if ((p > 0) & (q == 0)).any():
        return math.inf
    return float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum())


@pytest.mark.parametrize("shape", SHAPES)
def test_mse_is_near_the_best_there_is(shape: str) -> None:
    values = SHAPES[shape].astype(np.float32)
    largest = float(np.abs(values).max())
    best = min(squared_error(values, share * largest) for share in np.linspace(1 / 16, 1, 300))
    assert squared_error(values, amax_of(counted(values), "mse")) <= best * 1.01


def squared_error(values: Array, limit: float) -> float:
    step = limit / 127
    return float(((np.clip(np.rint(values / step), -127, 127) * step - values) ** 2).mean())


@pytest.mark.parametrize("method", ["percentile", "entropy", "mse"])
def test_one_outlier_in_a_million_is_clipped(method: Method) -> None:
    values = np.append(np.tile(SHAPES["normal"], 20), 40.0)
    assert amax_of(counted(values), "minmax") == 40.0
    assert 2.5 < amax_of(counted(values), method) < 8.0


def test_all_tensors_by_name_and_those_that_are_dead() -> None:
    histograms = TensorHistograms({"a": counted(SHAPES["normal"]), "b": counted(np.zeros(9))}, inputs=1)
    assert set(amax(histograms, "entropy")) == {"a", "b"}
    assert histograms.dead() == ("b",)
