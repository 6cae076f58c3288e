"""How long to wait before a camera is tried again."""

from __future__ import annotations

import random

FIRST_S, LONGEST_S = 0.5, 30.0
GOOD_RUN_S = 30.0
JITTER = 0.25           # cameras that failed together are not tried together


class Backoff:
    """Doubles from `FIRST_S` to `LONGEST_S`; starts over after `GOOD_RUN_S` of frames."""

    def __init__(self) -> None:
        self._next_s = FIRST_S
        self._random = random.Random()

    def after(self, recorded_s: float) -> float:
        """Seconds to wait after a try that gave `recorded_s` of frames."""
        if recorded_s >= GOOD_RUN_S:
            self._next_s = FIRST_S
        wait_s, self._next_s = self._next_s, min(2 * self._next_s, LONGEST_S)
        return wait_s * (1.0 - JITTER * self._random.random())
