"""A network in float and in INT8, as the tests on the GPU machine want it. Needs numpy, onnx and ONNX Runtime only.

    python -m tests.gpu.variants FOLDER     # the generator, 553 MB twice: made on the GPU machine itself
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from calibration.collect import collect
from calibration.observers import amax
from calibration.placement import quantisable
from calibration.quantize import calibrated_tensors, quantize
from edge.graph.batch import fix_size, free_batch
from edge.graph.layers import layers
from tests.harness.generator import generator
from tests.harness.generator import inputs as generator_inputs

Inputs = dict[str, npt.NDArray[Any]]
KEPT_INPUTS = 8
GENERATOR_INPUTS = 8


def main(arguments: Sequence[str]) -> int:
    """Write the generator; ``--small`` after the folder writes a small one."""
    target = Path(arguments[0])
    target.mkdir(parents=True, exist_ok=True)
    inputs = [generator_inputs(1, seed) for seed in range(GENERATOR_INPUTS)]
    write(target, "generator", generator("--small" in arguments), inputs)
    return 0


def write(target: Path, name: str, reference: onnx.ModelProto, inputs: Sequence[Inputs]) -> None:
    """The float graph, the INT8 graph, the inputs. Calibrated on all inputs; the first eight are kept."""
    shape = next(iter(inputs[0].values())).shape
    height, width = shape[1:3] if shape[-1] == 3 else shape[2:4]
    plan = int8_layers(reference)
    histograms = collect(reference, iter(inputs), calibrated_tensors(reference, plan))
    quantised = quantize(reference, amax(histograms, "entropy"), plan)
    for variant, model in ((name, reference), (f"{name}.int8", quantised)):
        graph = fix_size(free_batch(model), None, height, width)
        (target / f"{variant}.onnx").write_bytes(graph.SerializeToString())
    kept = {key: np.concatenate([each[key] for each in inputs[:KEPT_INPUTS]]) for key in inputs[0]}
    np.savez_compressed(target / f"{name}.npz", **kept)  # type: ignore[arg-type]
    print(f"{name}: {width}x{height}, {len(plan)} layers of {len(layers(reference))} in INT8", flush=True)


def int8_layers(model: onnx.ModelProto) -> frozenset[str]:
    """Those that INT8 pays for most often: dense and pointwise, with channels enough, neither first nor last."""
    allowed = quantisable(model)
    return frozenset(
        layer.name
        for layer in layers(model)
        if layer.name in allowed and layer.kind in ("dense", "pointwise") and not (layer.first or layer.last)
        and min(layer.in_channels, layer.out_channels) >= 16
    )   # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
