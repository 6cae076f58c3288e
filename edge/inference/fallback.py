"""Engines for some input sizes, and something slower for the rest."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from edge.engines.probe import differences
from edge.engines.store import StoredEngine
from edge.errors import ConfigError
from edge.inference.runtime import Note, Runtime
from edge.types import Float32, UInt8


class SizedRuntime(Runtime, Protocol):
    """A runtime for some input sizes only."""

    @property
    def sizes(self) -> frozenset[tuple[int, int]]:
        """Height and width of the pictures that it runs."""


class EngineRuntime:
    """Pictures of a size without an engine go to another runtime, which is opened when the first one comes.

    rebuild: the command that builds engines. require_gpu: raise ConfigError for such a picture instead.
    note: told once for each such size. engine_sha256: of the engines.
    """

    def __init__(
        self,
        engines: SizedRuntime,
        open_other: Callable[[], Runtime],
        rebuild: str,
        require_gpu: bool,
        note: Note,
        engine_sha256: str = "",
    ) -> None:
        self.engine_sha256 = engine_sha256
        self._engines, self._sizes = engines, engines.sizes
        self._open_other = open_other
        self._rebuild, self._require_gpu, self._note = rebuild, require_gpu, note
        self._told: set[tuple[int, int]] = set()
        self._lock = threading.Lock()
        self._other: Runtime | None = None

    def run(self, picture: UInt8) -> dict[str, Float32]:
        """See `Runtime.run`."""
        height_px, width_px = picture.shape[1:3]
        if (height_px, width_px) in self._sizes:
            return self._engines.run(picture)
        return self._without_engine(height_px, width_px).run(picture)

    @property
    def parallel_runs(self) -> int:
        """See `Runtime.parallel_runs`."""
        return self._engines.parallel_runs

    def batches(self) -> Mapping[int, int]:
        """See `Runtime.batches`."""
        total = Counter(self._engines.batches())
        with self._lock:
            other = self._other
        if other is not None:
            total.update(other.batches())
        return total

    def describe(self) -> str:
        """For people."""
        return self._engines.describe()

    def close(self) -> None:
        """Close both."""
        self._engines.close()
        with self._lock:
            if self._other is not None:
                self._other.close()
                self._other = None

    def _without_engine(self, height_px: int, width_px: int) -> Runtime:
        with self._lock:
            size = (height_px, width_px)
            what = f"there is no TensorRT engine for detector inputs of {width_px}x{height_px}"
            remedy = f"run: {self._rebuild} --frame WxH, with the size of the pictures"
            if self._require_gpu:
                raise ConfigError(what, remedy)
            if self._other is None:
                self._other = self._open_other()
            if size not in self._told:
                self._told.add(size)
                self._note(f"{what}, they run on {self._other.describe()}; {remedy}")
            return self._other


def combined_sha256(hashes: Sequence[str]) -> str:
    """One hash that stands for several: that of a single one is itself."""
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(sorted(hashes)).encode()).hexdigest()


def check_probe(runtime: Runtime, stored: StoredEngine) -> None:
    """Run the probe input; raises ConfigError when it does not give what it gave when the engine was built."""
    wrong = differences(stored.manifest.probe, runtime.run)
    if wrong:
        raise ConfigError(
            f"{stored.path}: gives other results than when it was built ({'; '.join(wrong)})", f"run: {stored.rebuild}"
        )
