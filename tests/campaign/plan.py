"""Which fault comes when: drawn from a seed, so that a campaign can be repeated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

# How often each kind is drawn, relative to the others, and how long its cause lasts in seconds.
KINDS: dict[str, tuple[float, tuple[float, float]]] = {
    "detector_raises": (3, (2.0, 6.0)),
    "detector_nan": (3, (2.0, 6.0)),
    "detector_wrong_shape": (3, (2.0, 6.0)),
    "detector_late": (2, (1.0, 4.0)),
    "detector_crashes": (2, (0.0, 0.0)),
    "detector_hangs": (1, (0.0, 0.0)),
    "stream_corrupt": (3, (2.0, 6.0)),
    "stream_drop": (3, (2.0, 6.0)),
    "stream_stall": (2, (1.0, 8.0)),
    "stream_garbage": (2, (0.0, 0.0)),
    "stream_reset": (3, (0.0, 0.0)),
    "stream_close": (2, (0.0, 0.0)),
    "server_dies": (1, (1.0, 4.0)),
    "server_freezes": (1, (1.0, 8.0)),
    "kill_camera": (3, (0.0, 0.0)),
    "stop_camera": (1, (0.0, 0.0)),
    "kill_inference": (2, (0.0, 0.0)),
    "stop_inference": (1, (0.0, 0.0)),
    "kill_keeper": (2, (0.0, 0.0)),
    "disk_full": (2, (2.0, 6.0)),
    "disk_read_only": (2, (2.0, 6.0)),
    "disk_missing": (1, (2.0, 6.0)),
    "disk_hangs": (1, (1.0, 4.0)),
    "clock_forward": (1, (0.0, 0.0)),
    "clock_back": (1, (0.0, 0.0)),
    "reload_same": (1, (0.0, 0.0)),
    "reload_changed": (2, (0.0, 0.0)),
    "reload_broken": (2, (0.0, 0.0)),
    "terminate": (1, (0.0, 0.0)),
    "kill_supervisor": (1, (0.0, 0.0)),
}

# Those that end a process of the daemon, so that it starts anew.
ENDING = ("detector_crashes", "detector_hangs", "kill_camera", "stop_camera", "kill_inference", "stop_inference",
          "kill_keeper", "terminate", "kill_supervisor", "reload_changed")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Episode:
    """One fault. seconds: how long its cause lasts; then comes a pause in which the daemon recovers. camera: index.

    rate: how much of what passes is hit, 0 to 1, where that applies.
    """

    number: int
    kind: str
    camera: int
    seconds: float
    rate: float
    pause_s: float
    seed: int = field(repr=False, default=0)


def episodes(seed: int, cameras: int, kinds: tuple[str, ...] = tuple(KINDS)) -> Iterator[Episode]:
    """Episodes without end. The first ones are each kind once, so that a short campaign meets all of them."""
    chance = random.Random(seed)
    first = list(kinds)
    chance.shuffle(first)
    weights = [KINDS[kind][0] for kind in kinds]
    number = 0
    while True:
        kind = first.pop() if first else chance.choices(kinds, weights)[0]
        shortest, longest = KINDS[kind][1]
        yield Episode(number, kind, chance.randrange(cameras), chance.uniform(shortest, longest),
                      chance.choice((0.1, 0.4, 1.0)), chance.uniform(0.2, 2.0), chance.randrange(1 << 31))
        number += 1
