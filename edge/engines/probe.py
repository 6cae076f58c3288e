"""A built-in picture whose outputs are written down with the engine, and must come out again after it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edge.engines.manifest import Probe, ProbeOutput
from edge.errors import ConfigError
from edge.types import Float32, UInt8

SEED = 1
SAMPLES = 64
# An engine gives the same numbers again on its own device, but for the order of sums in FP16; a wrong engine, or
# one that a driver computes wrongly, is off by whole multiples.
TOLERANCE = 0.02
Run = Callable[[UInt8], Mapping[str, Float32]]


def probe_input(height_px: int, width_px: int, seed: int = SEED) -> UInt8:
    """A uint8 (1, height, width, 3) picture: shades, edges and grain, by integer arithmetic only.

    So it is the same with every version of NumPy, which random generators are not.
    """
    y = np.arange(height_px, dtype=np.uint32).reshape(-1, 1, 1)
    x = np.arange(width_px, dtype=np.uint32).reshape(1, -1, 1)
    channel = np.arange(3, dtype=np.uint32).reshape(1, 1, -1)
    shade = (x * 160) // np.uint32(width_px) + (y * 60) // np.uint32(height_px) + channel * 11
    tiles = (((x >> 5) * 73856093) ^ ((y >> 5) * 19349663) ^ (channel * 83492791) ^ seed) >> 3
    grain = ((x * 2654435761) ^ (y * 2246822519) ^ (channel * 3266489917) ^ (seed * 668265263 & 0xFFFFFFFF)) >> 27
    picture: UInt8 = ((shade + (tiles & 63) + grain) & 255).astype(np.uint8)
    return picture[None]


def make_probe(run: Run, height_px: int, width_px: int, tolerance: float = TOLERANCE) -> Probe:
    """Run the probe input and write down what comes out. Raises ConfigError when that is not finite."""
    outputs = run(probe_input(height_px, width_px))
    described = tuple(_describe(name, outputs[name]) for name in sorted(outputs))
    bad = [output.name for output in described if not np.isfinite([output.rms, output.mean]).all()]
    if bad:
        raise ConfigError(f"the outputs {', '.join(bad)} are not finite", "build in FP32: edge-build --fp32")
    return Probe(seed=SEED, height_px=height_px, width_px=width_px, tolerance=tolerance, outputs=described)


def differences(probe: Probe, run: Run) -> list[str]:
    """Run the probe input again; what is not as it was written down, for people. Empty: all is."""
    outputs = run(probe_input(probe.height_px, probe.width_px, probe.seed))
    expected = {output.name: output for output in probe.outputs}
    if set(outputs) != set(expected):
        return [f"outputs {sorted(outputs)} instead of {sorted(expected)}"]
    return [text for name in sorted(expected) if (text := _difference(expected[name], outputs[name], probe.tolerance))]


def _difference(expected: ProbeOutput, values: Float32, tolerance: float) -> str:
    got = _describe(expected.name, values)
    if got.shape != expected.shape:
        return f"{expected.name} has the shape {got.shape} instead of {expected.shape}"
    limit = tolerance * max(expected.rms, 1e-6)
    apart = np.abs(_vector(got) - _vector(expected))
    if not (apart <= limit).all():      # also when something is not a number
        return f"{expected.name} is off by {float(np.max(apart)) / max(expected.rms, 1e-6):.2g} of its rms"
    return ""


def _vector(output: ProbeOutput) -> npt.NDArray[np.float64]:
    return np.array([output.mean, output.rms, *output.samples], np.float64)


def _describe(name: str, values: npt.NDArray[Any]) -> ProbeOutput:
    flat = np.asarray(values, np.float64).ravel()
    places = np.linspace(0, max(0, flat.size - 1), min(SAMPLES, flat.size)).astype(np.int64)
    return ProbeOutput(
        name=name,
        shape=tuple(values.shape),
        mean=float(flat.mean()),
        rms=float(np.sqrt(np.square(flat).mean())),
        samples=tuple(float(np.float32(value)) for value in flat[places]),
    )
