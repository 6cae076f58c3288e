"""Writes what was chosen, with everything that its manifest says about it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import edge
from build_engines.backend import BuildBackend, Built, Timing
from build_engines.choice import Verdict
from build_engines.frames import EngineSize
from build_engines.network import Network
from calibration.ranges import Ranges
from edge.engines.manifest import (
    CalibrationRecord,
    Manifest,
    PrecisionKind,
    PrecisionPlan,
    TimingRecord,
    description_hash,
)
from edge.engines.probe import make_probe
from edge.engines.store import write_engine
from edge.models.choose import ResolvedModel

ANY_SIZE_PROBE_PX = (192, 320)      # height and width; an engine for any size is probed with a small one


@dataclass(frozen=True, slots=True, eq=False)
class EngineFacts:
    """What all engines of one model have in common. ranges: None without INT8."""

    network: Network
    resolved: ResolvedModel
    backend: BuildBackend
    batches: tuple[int, ...]
    ranges: Ranges | None


def write(
    directory: Path,
    facts: EngineFacts,
    built: Built,
    size: EngineSize | None,
    timings: Sequence[Timing],
    verdict: Verdict | None,
) -> Path:
    """Probe what was built and write it with its manifest; returns the payload's path. size: None runs any size.

    Raises StorageError, ConfigError when its outputs are not finite.
    """
    height, width = ANY_SIZE_PROBE_PX if size is None else (size.height_px, size.width_px)
    with closing(facts.backend.open(built)) as runtime:
        probe = make_probe(runtime.run, height, width)
    device, candidate, model = facts.backend.describe(), built.candidate, facts.resolved.description
    manifest = Manifest(
        model=model.name,
        model_sha256=facts.network.sha256,
        description_sha256=description_hash(model),
        backend=facts.backend.name,
        height_px=None if size is None else height,
        width_px=None if size is None else width,
        batches=facts.batches,
        precision=PrecisionPlan(kind=kind(built, facts.backend.name), int8_layers=tuple(sorted(candidate.int8))),
        calibration=None if facts.ranges is None else _calibration(facts.ranges),
        toolkit=edge.__version__,
        device=device.name,
        machine=device.machine,
        compute_capability=device.compute_capability,
        tensorrt=device.tensorrt,
        cuda=device.cuda,
        jetpack=device.jetpack,
        probe=probe,
        timings=tuple(TimingRecord(batch=one.batch, median_ms=one.median_ms, spread_ms=one.spread_ms, runs=one.runs,
                                   gpu_mhz=one.gpu_mhz, memory_mhz=one.memory_mhz) for one in timings),
        scores={} if verdict is None else dict(verdict.scores),
        created_utc=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )   # fmt: skip
    return write_engine(directory, built.payload, manifest)


def kind(built: Built, backend: str) -> PrecisionKind:
    """The narrowest type in it."""
    if built.candidate.int8:
        return "int8"
    return "fp16" if built.candidate.half and backend == "tensorrt" else "fp32"


def _calibration(ranges: Ranges) -> CalibrationRecord:
    return CalibrationRecord(
        set_sha256=ranges.set_sha256, ranges_sha256=ranges.sha256, pictures=ranges.pictures, kind=ranges.set_kind
    )
