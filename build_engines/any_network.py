"""The search for networks that are no face detectors: embeddings, generators; simplified ONNX of fixed size."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import onnx

from build_engines.backend import BuildBackend
from build_engines.fidelity import Fidelity, Outputs
from build_engines.judge import FidelityJudge
from build_engines.network import Feed, Network
from build_engines.search import Display, Search, SearchOptions, SearchResult
from build_engines.sensitivity import outputs
from calibration.collect import collect
from calibration.observers import METHODS, Method, amax
from calibration.quantize import calibrated_tensors

SAMPLES = 4     # inputs that noise is measured on
Measure = Callable[[Sequence[Outputs], Sequence[Outputs]], Fidelity]


def plain_network(name: str, model: onnx.ModelProto, feeds: Sequence[Feed]) -> Network:
    """A network for `search_network`. feeds: inputs by name, batch 1; picture inputs are (1, C, H, W)."""
    shape = next((value.shape for value in feeds[0].values() if value.ndim == 4), (1, 1, 1, 1))
    digest = hashlib.sha256(model.SerializeToString()).hexdigest()
    return Network(name, name, model, digest, shape[2], shape[3], tuple(feeds[:SAMPLES]))


def search_network(
    network: Network,
    backend: BuildBackend,
    calibration: Sequence[Feed],
    held_out: Sequence[Feed],
    measure: Measure,
    options: SearchOptions,
    display: Display,
    least: tuple[float, float] = (0.98, 0.95),
) -> SearchResult:
    """Calibrate on some inputs, search, judge on others.

    measure: such as `build_engines.fidelity.compare_embeddings`. least: mean and worst value of it that may be kept.
    Raises what `Search.run` raises.
    """
    display.stage(f"{network.name}: calibrating on {len(calibration)} inputs")
    histograms = collect(network.reference, calibration, calibrated_tensors(network.reference), display.step)
    ranges: Mapping[Method, Mapping[str, float]] = {method: amax(histograms, method) for method in METHODS}
    judge = FidelityJudge(held_out, outputs(network.reference, held_out), measure, *least)
    return Search(network, backend, judge, ranges.__getitem__, options, display).run()
