"""A face network that runs in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path

from edge.detect.candidates import Candidates, Reader
from edge.detect.centerface import read_centerface
from edge.detect.detector import Detector
from edge.detect.retinaface import read_retinaface
from edge.detect.scrfd import read_scrfd
from edge.detect.yunet import read_yunet
from edge.inference.runtime import Note, Runtime, open_runtime
from edge.models.choose import choose
from edge.models.description import Family, ModelDescription
from edge.models.store import file_sha256
from edge.settings import DetectSettings
from edge.types import UInt8

MAX_NOTES = 20
READERS: dict[Family, Reader] = {
    "yunet": read_yunet,
    "centerface": read_centerface,
    "scrfd": read_scrfd,
    "retinaface": read_retinaface,
}


class LocalNetwork:
    """A runtime, and the reader of what it gives: see `edge.detect.network.Network`.

    runtime: closed with this. model_sha256: of the file that the runtime was made from.
    """

    def __init__(self, runtime: Runtime, model: ModelDescription, reason: str = "", model_sha256: str = "") -> None:
        self.runtime = runtime
        self.model = model
        self.reason = reason
        self.model_sha256 = model_sha256
        self._reader = READERS[model.family]

    @property
    def engine_sha256(self) -> str:
        """Of the engine that runs, hexadecimal; empty where none was built."""
        return self.runtime.engine_sha256

    @property
    def parallel_runs(self) -> int:
        """How many calls of `find` at once keep the device busy."""
        return self.runtime.parallel_runs

    def find(self, pixels: UInt8, min_score: float) -> Candidates:
        """See `edge.detect.network.Network.find`."""
        height_px, width_px = pixels.shape[1:3]
        return self._reader(self.runtime.run(pixels), self.model, height_px, width_px, min_score)

    def batches(self) -> Mapping[int, int]:
        """How often each batch size was run."""
        return self.runtime.batches()

    def describe(self) -> str:
        """Library, version and device, for people."""
        return self.runtime.describe()

    def close(self) -> None:
        """Close the runtime."""
        self.runtime.close()


def open_network(settings: DetectSettings, models_dir: Path | None, note: Note) -> LocalNetwork:
    """Find the model, load what runs it here. Raises what `choose` and `open_runtime` raise.

    models_dir: where model files are kept, instead of the user's cache. note: see `open_runtime`.
    """
    resolved = choose(settings.model, models_dir)
    runtime = open_runtime(
        settings.backend, resolved.path, resolved.description, settings.engine_dir, settings.require_gpu, note
    )
    return LocalNetwork(runtime, resolved.description, resolved.reason, file_sha256(resolved.path) or "")


def open_detector(settings: DetectSettings, models_dir: Path | None = None) -> Detector:
    """A detector whose network runs in this process. See `open_network`."""
    notes: deque[str] = deque(maxlen=MAX_NOTES)
    return Detector(settings, open_network(settings, models_dir, notes.append), notes)
