"""How much noise INT8 makes in each group of layers, measured at the outputs, and which ranges make the least."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from build_engines.fidelity import Outputs
from build_engines.network import Feed, Network
from calibration.observers import METHODS, Method
from edge.errors import UnavailableError
from edge.inference.onnx_runtime import load_onnxruntime

MAX_GROUPS = 12
Progress = Callable[[int, int], None]
AmaxOf = Callable[[Method], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that follow one another. noise: power of their noise over that of the signal, at the worst output."""

    layers: tuple[str, ...]
    noise: float = 0.0


def groups(network: Network, int8: Collection[str], most: int = MAX_GROUPS) -> tuple[tuple[str, ...], ...]:
    """The layers in `int8`, in the order of the graph, in at most `most` groups of about the same number.

    Layers that end at an output are apart from the rest: boxes suffer first from what INT8 does there.
    """
    ordered = [layer for layer in network.layers if layer.name in int8]
    heads = [layer.name for layer in ordered if layer.last]
    inner = [layer.name for layer in ordered if not layer.last]
    count = min(most - bool(heads), len(inner))
    parts = [tuple(part) for part in np.array_split(inner, count) if len(part)] if count else []
    named = [tuple(str(name) for name in part) for part in parts]
    return (*named, *([tuple(heads)] if heads else []))


def best_method(
    network: Network, int8: Collection[str], amax_of: AmaxOf, progress: Progress = lambda done, total: None
) -> tuple[Method, dict[Method, float]]:
    """The calibration method with the least noise at the outputs, and the noise of each."""
    reference = outputs(network.reference, network.samples)
    noise: dict[Method, float] = {}
    for number, method in enumerate(METHODS):
        noise[method] = noise_power(reference, outputs(network.quantized(amax_of(method), int8), network.samples))
        progress(number + 1, len(METHODS))
    return min(METHODS, key=lambda method: noise[method]), noise


def measure(
    network: Network,
    amax: Mapping[str, float],
    parts: Sequence[tuple[str, ...]],
    progress: Progress = lambda done, total: None,
) -> tuple[Group, ...]:
    """Quantise one group at a time. Noise of several adds up, nearly: each is small, and they are not correlated."""
    reference = outputs(network.reference, network.samples)
    measured = []
    for number, part in enumerate(parts):
        found = outputs(network.quantized(amax, part), network.samples)
        measured.append(Group(part, noise_power(reference, found)))
        progress(number + 1, len(parts))
    return tuple(measured)


def without_noisiest(parts: Sequence[Group], share: float) -> frozenset[str]:
    """The layers of all groups but the noisiest ones, left out until the rest makes at most `share` of the noise."""
    total = sum(part.noise for part in parts)
    kept = sorted(parts, key=lambda part: (part.noise, part.layers))
    while kept and sum(part.noise for part in kept) > share * total:
        kept.pop()
    return frozenset(name for part in kept for name in part.layers)


def noise_power(reference: Sequence[Outputs], found: Sequence[Outputs]) -> float:
    """Power of the difference over that of the signal, over all inputs, at the worst output; or infinity.

    In maps (1, C, H, W) every channel counts alike, whatever its unit: scores, sizes and landmarks share a map.
    Channels that are zero throughout are padding and do not count.
    """
    worst = 0.0
    for name in reference[0] if reference else ():
        signal = np.sum([_power(one[name]) for one in reference], axis=0)
        noise = np.sum([_power(one[name] - other[name]) for one, other in zip(reference, found, strict=True)], axis=0)
        if not np.isfinite(noise).all():
            return float("inf")
        full = signal > 0
        if full.any():
            worst = max(worst, float((noise[full] / signal[full]).mean()))
    return worst


def _power(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Sum of squares, by channel where there are any: (C,) or (1,)."""
    squares = np.square(values.astype(np.float64))
    return np.asarray(squares.sum(axis=(0, 2, 3)) if squares.ndim == 4 else squares.sum().reshape(1), np.float64)


def outputs(model: onnx.ModelProto, samples: Sequence[Feed]) -> list[Outputs]:
    """Run a graph in ONNX Runtime. Raises UnavailableError when it refuses the graph."""
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.enable_mem_pattern = False
    try:
        session: Any = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]
        return [dict(zip(names, session.run(names, dict(sample)), strict=True)) for sample in samples]
    except Exception as error:          # its exceptions share no base class
        raise UnavailableError(f"ONNX Runtime refuses a graph ({error})", "check the model file") from error
