"""Groups the samples of a report into metric families, in the order in which the families were first named."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from edge.reports import LATENCY_BUCKETS_MS, Histogram

BATCH_SIZES = (1, 2, 4, 8, 16, 32)


class Families:
    """Gauges and counters with the same labels. Names of counters go without ``_total``, which is added."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = labels
        self._families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}

    def gauge(self, name: str, text: str, values: Sequence[str], sample: float) -> None:
        """Add a sample; text: what the metric is, for people."""
        family = self._families.setdefault(name, GaugeMetricFamily(name, text, labels=self._labels))
        family.add_metric(values, float(sample))

    def counter(self, name: str, text: str, values: Sequence[str], sample: float) -> None:
        """Add a sample; text: what the metric is, for people."""
        family = self._families.setdefault(name, CounterMetricFamily(name, text, labels=self._labels))
        family.add_metric(values, float(sample))

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._families.values())


class Histograms:
    """Histograms of one name. What does not have the buckets of `edge.reports` is left out."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._family = HistogramMetricFamily(name, text, labels=labels)

    def add(self, values: Sequence[str], histogram: Histogram) -> None:
        """Milliseconds, shown as seconds."""
        if len(histogram.counts) == len(LATENCY_BUCKETS_MS) + 1:
            ends = [_text(end / 1000) for end in LATENCY_BUCKETS_MS]
            self._add(values, ends, histogram.counts, histogram.sum_ms / 1000)

    def add_sizes(self, values: Sequence[str], runs: Mapping[str, int]) -> None:
        """Runs by size, a number as text."""
        counts, total = [0] * (len(BATCH_SIZES) + 1), 0
        for size, count in runs.items():
            if size.isdecimal() and len(size) < 6:
                counts[next((i for i, end in enumerate(BATCH_SIZES) if int(size) <= end), len(BATCH_SIZES))] += count
                total += int(size) * count
        self._add(values, [_text(end) for end in BATCH_SIZES], counts, total)

    def _add(self, values: Sequence[str], ends: Sequence[str], counts: Sequence[int], total: float) -> None:
        cumulative = map(float, itertools.accumulate(counts))
        buckets = list(zip((*ends, "+Inf"), cumulative, strict=True))
        self._family.add_metric(values, buckets, sum_value=total)

    def __iter__(self) -> Iterator[Metric]:
        return iter([self._family] if self._family.samples else [])


def _text(number: float) -> str:
    return repr(float(number))
