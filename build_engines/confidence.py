"""What a count of faces can say about a share, and what not."""

from __future__ import annotations

import math

CONFIDENCE = 0.95


def largest_share(events: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Upper limit of a share of which `events` of `trials` were seen (Clopper and Pearson 1934, one-sided).

    The share at which seeing so few has a chance of 1 - confidence; 1 without trials. With no events it is about
    3 / trials ("rule of three").
    """
    if trials <= 0 or events >= trials:
        return 1.0
    low, high = events / trials, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _at_most(events, trials, middle) > 1 - confidence else (low, middle)
    return high


def _at_most(events: int, trials: int, share: float) -> float:
    """Probability of at most `events` of `trials`."""
    if share <= 0:
        return 1.0
    if share >= 1:
        return 0.0
    logs = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * math.log(share) + (trials - k) * math.log1p(-share)
        for k in range(events + 1)
    ]   # fmt: skip
    return min(1.0, sum(math.exp(value) for value in logs))
