"""The networks of the inference process: each is loaded when the first camera asks for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from edge.errors import DetectorError, DeviceLostError, EdgeError
from edge.inference.pool import Counts, Pool, ServedNetwork
from edge.inference.runtime import Note
from edge.inference.wire import runtime_settings
from edge.settings import DetectSettings

OpenNetwork = Callable[[DetectSettings, "Path | None", Note], ServedNetwork]
# An error is answered from memory for so long; then the next camera that asks has it tried again.
RETRY_S = 10.0


@dataclass(slots=True)
class _Entry:
    started_s: float = field(default_factory=time.monotonic)
    pool: Pool | None = None
    error: EdgeError | None = None


class LoadedNetworks:
    """Networks by their settings. All methods but the loading itself belong to one thread.

    open_network: loads one. models_dir: see `edge.inference.local_network.open_network`. on_change: called from another
    thread when one was loaded, or could not be. on_lost: see `Pool`.
    """

    def __init__(
        self,
        open_network: OpenNetwork,
        models_dir: Path | None,
        counts: Counts,
        note: Note,
        on_change: Callable[[], None],
        on_lost: Callable[[EdgeError], None],
    ) -> None:
        self._open, self._models_dir, self._counts = open_network, models_dir, counts
        self._note, self._on_change, self._on_lost = note, on_change, on_lost
        self._entries: dict[DetectSettings, _Entry] = {}
        self._one_at_a_time = threading.Lock()

    def pool(self, settings: DetectSettings) -> Pool | None:
        """The network for these settings; None while it is being loaded, which the first call starts.

        Raises what loading it raised.
        """
        key = runtime_settings(settings)
        entry = self._entries.get(key)
        if entry is None or (entry.error is not None and time.monotonic() - entry.started_s > RETRY_S):
            entry = self._entries[key] = _Entry()
            threading.Thread(target=self._load, args=(key, entry), name="load", daemon=True).start()
        if entry.error is not None:
            raise entry.error
        return entry.pool

    def pools(self) -> list[Pool]:
        """Those that are loaded."""
        return [entry.pool for entry in self._entries.values() if entry.pool is not None]

    def close_unused(self, used: Collection[Pool | None], is_wanted: Callable[[DetectSettings], bool]) -> None:
        """Give back what no camera uses, nor may ask for any more."""
        for key, entry in list(self._entries.items()):
            if (entry.pool is not None or entry.error is not None) and entry.pool not in used and not is_wanted(key):
                del self._entries[key]
                if entry.pool is not None:
                    entry.pool.close()

    def longest_load_s(self) -> float:
        """How long the longest that is under way has taken; 0 when none is."""
        now_s = time.monotonic()
        loads = [now_s - each.started_s for each in self._entries.values() if each.pool is None and each.error is None]
        return max(loads, default=0.0)

    def close(self) -> None:
        """Close what is loaded."""
        for pool in self.pools():
            pool.close()

    def _load(self, key: DetectSettings, entry: _Entry) -> None:
        pool = None
        try:
            with self._one_at_a_time:
                pool = Pool(self._open(key, self._models_dir, self._note), self._counts, self._on_lost)
        except DeviceLostError as error:
            self._on_lost(error)
            return
        except EdgeError as error:
            failure = error
        except Exception as error:
            failure = DetectorError(f"the model cannot be loaded ({type(error).__name__}: {error})")
        if pool is None:
            failure.__traceback__ = None
            entry.started_s, entry.error = time.monotonic(), failure
        else:
            entry.pool = pool
        self._on_change()
