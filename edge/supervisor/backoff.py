"""How long to wait before something that failed is tried again."""

from __future__ import annotations

import random

FIRST_S = 0.5
LONGEST_S = 30.0
GOOD_RUN_S = 60.0
# Up to this share is taken off at random, so that what failed together is not tried together.
JITTER = 0.25


class Backoff:
    """Doubles from `FIRST_S` to `LONGEST_S`; starts over after a run of `GOOD_RUN_S`."""

    def __init__(self) -> None:
        self._next_s = FIRST_S
        self._random = random.Random()

    def after_run(self, ran_s: float) -> float:
        """Seconds to wait after a run that took `ran_s` and failed."""
        if ran_s >= GOOD_RUN_S:
            self.reset()
        wait_s, self._next_s = self._next_s, min(2 * self._next_s, LONGEST_S)
        return wait_s * (1.0 - JITTER * self._random.random())

    def reset(self) -> None:
        """Forget earlier failures."""
        self._next_s = FIRST_S
