"""Running histograms: whatever order and portions values come in, the counts are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibration.histogram import BINS, Histogram, NotFiniteError

Array = npt.NDArray[Any]

# Denormal numbers are left out: ONNX Runtime makes them zero, on the calling thread as well.
FLOATS = st.floats(-(2.0**99), 2.0**99, width=32, allow_subnormal=False)
PORTIONS = st.lists(arrays(np.float32, st.integers(0, 40), elements=FLOATS), min_size=1, max_size=6)


def counted(*portions: Array) -> Histogram:
    histogram = Histogram()
    for portion in portions:
        histogram.add(portion)
    return histogram


def state(histogram: Histogram) -> tuple[object, ...]:
    return (
        histogram.counts.tolist(), histogram.exponent, histogram.minimum, histogram.maximum, histogram.values,
        histogram.zeros,
    )   # fmt: skip


@settings(deadline=None, max_examples=80)
@given(PORTIONS, st.randoms(use_true_random=False))
def test_order_and_portions_do_not_matter(portions: list[Array], dice: Any) -> None:
    whole = counted(np.concatenate(portions))
    shuffled = list(portions)
    dice.shuffle(shuffled)
    assert state(counted(*shuffled)) == state(whole)
    merged = Histogram()
    for portion in shuffled:
        merged.merge(counted(portion))
    assert state(merged) == state(whole)


@settings(deadline=None, max_examples=80)
@given(PORTIONS)
def test_counts_are_those_of_numpy(portions: list[Array]) -> None:
    histogram = counted(*portions)
    values = np.abs(np.concatenate(portions)).astype(np.float64)
    assert histogram.counts.sum() == histogram.values == len(values)
    assert histogram.zeros == (values == 0).sum()
    assert histogram.magnitude == (values.max() if len(values) else 0)
    if histogram.exponent is None:
        assert not values.any()
        return
    edges = np.arange(BINS + 1) * histogram.bin_width
    assert (histogram.counts == np.histogram(values, edges)[0]).all()
    assert values.max() < edges[-1]
    assert values.max() >= edges[BINS // 2] or histogram.exponent == -100


@pytest.mark.parametrize("large", [1.0, 1.5, 2.0, 4096.0, 3e38])
def test_a_range_that_grows_keeps_its_counts(large: float) -> None:
    small = np.linspace(-0.4, 0.4, 999, dtype=np.float32)
    histogram = counted(small)
    fine = histogram.nonzero_counts()
    histogram.add(np.array([large], np.float32))
    assert histogram.values == 1000
    assert histogram.counts.sum() == 1000
    assert len(histogram.nonzero_counts()) > BINS // 2
    assert histogram.nonzero_counts()[:-1].sum() == fine.sum()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_count_nothing(bad: float) -> None:
    histogram = counted(np.ones(5, np.float32))
    before = state(histogram)
    with pytest.raises(NotFiniteError):
        histogram.add(np.array([1.0, bad, 9.0], np.float32))
    assert state(histogram) == before


def test_double_precision_beyond_single_is_not_finite() -> None:
    with pytest.raises(NotFiniteError):
        counted(np.array([1e300]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_types_count_alike(dtype: type) -> None:
    values = np.array([[-0.5, 0.25], [0.0, 3.5]], dtype)
    assert state(counted(values)) == state(counted(values.astype(np.float32)))


def test_many_blocks_are_counted_once() -> None:
    values = np.random.default_rng(1).standard_normal(200_001).astype(np.float32)
    histogram = counted(values)
    assert histogram.counts.sum() == histogram.values == 200_001
    edges = np.arange(BINS + 1) * histogram.bin_width
    assert (histogram.counts == np.histogram(np.abs(values), edges)[0]).all()


def test_every_few_values_stand_for_all() -> None:
    values = np.random.default_rng(2).standard_normal(700_000).astype(np.float32)
    values[1] = 100.0       # is not looked at, but the extremes are exact
    histogram = Histogram()
    histogram.add(values, every=7)
    assert histogram.values == histogram.counts.sum() == 700_000
    assert histogram.maximum == 100.0
    share = histogram.counts[: int(1 / histogram.bin_width)].sum() / 700_000
    assert share == pytest.approx((np.abs(values) < 1).mean(), abs=0.005)
