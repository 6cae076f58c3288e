"""The inference process with faults: ``python -m tests.harness.faulty_inference FD``.

The same server as `edge.inference.server`, with networks that misbehave as the JSON file named by
``$EDGE_INFERENCE_FAULTS`` says. The file is read again whenever it changes::

    {"seed": 7, "faults": [{"kind": "nan", "probability": 0.05}, {"kind": "slow", "probability": 0.01, "seconds": 3}]}

Each run draws once; the probabilities add up to at most 1. The same seed gives the same faults in the same order.
Kinds: see `FAULTS` and `CANDIDATE_FAULTS`. Write the file anew and rename it, so that no half is read. Each fault adds
one byte to the file beside it whose name ends in ``.count``.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edge.channel import ChannelClosedError, ChildEnd
from edge.detect.candidates import Candidates
from edge.errors import DetectorError, DeviceLostError
from edge.inference.local_network import LocalNetwork, open_network
from edge.inference.runtime import Note
from edge.inference.serving import serve
from edge.settings import DetectSettings
from edge.types import Float32, UInt8

VARIABLE = "EDGE_INFERENCE_FAULTS"
Maps = dict[str, Float32]
HANG_S = 3600.0


def _raise(make: Callable[[], Exception]) -> Callable[[Maps, float], object]:
    def fail(maps: Maps, seconds: float) -> object:
        raise make()        # a new one each time: one that is raised again keeps all that it passed through

    return fail


def _sleep(maps: Maps, seconds: float) -> object:
    time.sleep(seconds)
    return maps


def _hold_interpreter(maps: Maps, seconds: float) -> object:
    """Native code that does not let any other Python thread run."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return maps


def _with(maps: Maps, value: float) -> object:
    changed = {name: found.copy() for name, found in maps.items()}
    for found in changed.values():
        found[0, :, found.shape[2] // 2, found.shape[3] // 2] = value
    return changed


def _points(count: int) -> Float32:
    return np.zeros((count, 5, 2), np.float32)


def _crash(maps: Maps, seconds: float) -> object:
    return ctypes.string_at(0)


# What happens to the maps of a run. seconds: of the fault, default 1.
FAULTS: Mapping[str, Callable[[Maps, float], object]] = {
    "raise": _raise(lambda: DetectorError("injected")),
    "surprise": _raise(lambda: ZeroDivisionError("injected")),
    "memory": _raise(lambda: MemoryError("injected")),
    "nan": lambda maps, seconds: _with(maps, np.nan),
    "infinite": lambda maps, seconds: _with(maps, np.inf),
    "wrong_shape": lambda maps, seconds: {name: found[:, :, 1:] for name, found in maps.items()},
    "wrong_type": lambda maps, seconds: {name: found.astype(np.float64) for name, found in maps.items()},
    "nothing": lambda maps, seconds: {},
    "slow": _sleep,
    "hang": lambda maps, seconds: _sleep(maps, HANG_S),
    "hang_all": lambda maps, seconds: _hold_interpreter(maps, HANG_S),
    "device_lost": _raise(lambda: DeviceLostError("injected loss of the GPU", "start again")),
    "crash": _crash,
    "exit": lambda maps, seconds: os._exit(1),
}
# What no reader lets through: the camera has to see it.
CANDIDATE_FAULTS: Mapping[str, Callable[[Candidates], Candidates]] = {
    "nan_boxes": lambda found: Candidates(np.full((2, 4), np.nan, np.float32), np.ones(2, np.float32), _points(2)),
    "odd_boxes": lambda found: Candidates(np.ones((2, 5), np.float32), np.ones(2, np.float32), _points(2)),
    "no_landmarks": lambda found: Candidates(found.boxes, found.scores, None),
}


class Faults:
    """The file, and what it says for the next run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._faults: list[dict[str, Any]] = []
        self._random = random.Random(0)

    def next(self) -> tuple[str, float] | None:
        """A kind and its seconds; None for a good run."""
        with self._lock:
            self._refresh()
            drawn = self._random.random()
            for fault in self._faults:
                drawn -= fault["probability"]
                if drawn < 0:
                    with self._path.with_suffix(".count").open("ab") as count:
                        count.write(b".")
                    return fault["kind"], fault.get("seconds", 1.0)
            return None

    def _refresh(self) -> None:
        try:
            found = self._path.stat()
            stamp = found.st_mtime_ns, found.st_ino
            if stamp == self._stamp:
                return
            said = json.loads(self._path.read_text())
        except FileNotFoundError:
            return
        self._stamp, self._faults, self._random = stamp, said["faults"], random.Random(said["seed"])
        unknown = {fault["kind"] for fault in self._faults} - FAULTS.keys() - CANDIDATE_FAULTS.keys()
        if unknown:
            raise ValueError(f"no such faults: {unknown}")


class FaultyNetwork(LocalNetwork):
    """A network whose runs are spoiled."""

    faults: Faults

    def find(self, pixels: UInt8, min_score: float) -> Candidates:
        """See `LocalNetwork.find`."""
        kind, seconds = self.faults.next() or ("", 0.0)
        maps: Any = self.runtime.run(pixels)
        if kind in FAULTS:
            maps = FAULTS[kind](maps, seconds)
        found = self._reader(maps, self.model, pixels.shape[1], pixels.shape[2], min_score)
        return CANDIDATE_FAULTS[kind](found) if kind in CANDIDATE_FAULTS else found


def open_faulty(settings: DetectSettings, models_dir: Path | None, note: Note) -> FaultyNetwork:
    """As `open_network`, spoiled."""
    good = open_network(settings, models_dir, note)
    network = FaultyNetwork(good.runtime, good.model, good.reason, good.model_sha256)
    network.faults = Faults(Path(os.environ[VARIABLE]))
    return network


def main() -> int:
    """Entry point."""
    try:
        return serve(ChildEnd(int(sys.argv[1])), open_faulty)
    except ChannelClosedError:
        return 1


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)
