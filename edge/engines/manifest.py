"""The manifest beside an engine: what it was made from, for what, and how well it did. Written last."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from edge.models.description import ModelDescription

SCHEMA_VERSION = 1      # also in `Manifest`
Sha256 = Field(pattern=r"^[0-9a-f]{64}$")
# A name that stays in its directory.
FileName = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$")
EngineBackend = Literal["tensorrt", "onnxruntime"]
PrecisionKind = Literal["fp32", "fp16", "int8"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class PrecisionPlan(_Strict):
    """kind: the narrowest type in it. int8_layers: names of the layers that run in INT8, each by its output tensor."""

    kind: PrecisionKind
    int8_layers: tuple[str, ...] = ()


class CalibrationRecord(_Strict):
    """What INT8 ranges come from. kind: ``default`` claims less: those faces are not the user's."""

    set_sha256: str = Sha256
    ranges_sha256: str = Sha256
    pictures: int = Field(gt=0)
    kind: Literal["folder", "list", "default"]


class ProbeOutput(_Strict):
    """One output for the probe input. rms: root mean square. samples: values at evenly spread places."""

    name: str
    shape: tuple[int, ...]
    mean: float
    rms: float
    samples: tuple[float, ...]


class Probe(_Strict):
    """What the engine gave for the built-in probe input. tolerance: as a fraction of each output's rms."""

    seed: int
    height_px: int = Field(gt=0)
    width_px: int = Field(gt=0)
    tolerance: float = Field(gt=0)
    outputs: tuple[ProbeOutput, ...] = Field(min_length=1)


class TimingRecord(_Strict):
    """Time of one batch, copies aside. spread_ms: between the quartiles of `runs` runs. gpu_mhz, memory_mhz: clocks of
    the GPU under that load; None where the machine does not say, or no GPU ran."""

    batch: int = Field(gt=0)
    median_ms: float = Field(gt=0)
    spread_ms: float = Field(ge=0)
    runs: int = Field(gt=0)
    gpu_mhz: float | None = Field(default=None, gt=0)
    memory_mhz: float | None = Field(default=None, gt=0)


class Manifest(_Strict):
    """Everything that has to match before an engine is used, and what it measured when it was made.

    model: name of the description. model_sha256: of the published file. description_sha256: of the description.
    height_px, width_px: of the detector input; None when any size runs. batches: largest batch of each profile.
    toolkit: version that wrote this. device, machine, compute_capability, jetpack: as `edge.device.Device` has them.
    scores: measured on held-out pictures, by name, such as ``recall_small``.
    engine, bytes, sha256: of the payload file in the same directory; set by `edge.engines.store.write_engine`.
    """

    schema_version: Literal[1] = 1
    model: str = FileName
    model_sha256: str = Sha256
    description_sha256: str = Sha256
    backend: EngineBackend
    height_px: int | None = Field(default=None, gt=0)
    width_px: int | None = Field(default=None, gt=0)
    batches: tuple[int, ...] = (1,)
    precision: PrecisionPlan
    calibration: CalibrationRecord | None = None
    toolkit: str
    device: str
    machine: str
    compute_capability: str | None = None
    tensorrt: str | None = None
    cuda: str | None = None
    jetpack: str | None = None
    probe: Probe
    timings: tuple[TimingRecord, ...] = ()
    scores: dict[str, float] = Field(default_factory=dict)
    engine: str = Field(default="unwritten", pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$")
    bytes: int = Field(default=0, ge=0)
    sha256: str = Field(default="0" * 64, pattern=r"^[0-9a-f]{64}$")
    created_utc: str

    @property
    def key(self) -> str:
        """What there is one engine of: ``yunet_n-tensorrt-640x384``, or ``-any`` for all sizes."""
        return engine_key(self.model, self.backend, self.height_px, self.width_px)


def engine_key(model: str, backend: EngineBackend, height_px: int | None, width_px: int | None) -> str:
    """File names of an engine start with this."""
    size = "any" if height_px is None or width_px is None else f"{width_px}x{height_px}"
    return f"{model}-{backend}-{size}"


def description_hash(model: ModelDescription) -> str:
    """Identity of a description, for `Manifest.description_sha256`."""
    return hashlib.sha256(model.model_dump_json().encode()).hexdigest()
