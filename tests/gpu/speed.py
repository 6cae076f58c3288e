"""The table of docs/int8.md: PyTorch eager, FP16 engine, INT8 engine, in one run on one GPU.

    python -m tests.gpu.speed .gpu/graphs OUT EAGER.json NAME:BATCH...

OUT holds plans (NAME-BATCHES.plan, NAME.int8-BATCHES.plan) that tests/gpu built, or they are built here. EAGER.json is
what tests.gpu.eager wrote.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from build_engines.options import DEFAULT_LEVEL
from build_engines.tensorrt_builder import BuildRequest, build, default_workspace_bytes
from edge.inference.tensorrt import TensorRtRuntime

ROUNDS, RUNS, WARM_UP_RUNS = 5, 40, 20
SHOWN_LAYERS = 8


def main(arguments: Sequence[str]) -> int:
    """Print the table, and for each INT8 engine the layers that take longest."""
    graphs, out, eager = Path(arguments[0]), Path(arguments[1]), json.loads(Path(arguments[2]).read_text())
    names = dict.fromkeys(item.partition(":")[0] for item in arguments[3:])
    print("| network | batch | PyTorch eager FP32 ms | FP16 ms | INT8 ms | eager / FP16 | FP16 / INT8 |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        batches = tuple(sorted(int(item.partition(":")[2]) for item in arguments[3:] if item.startswith(f"{name}:")))
        variants = [variant for variant in (name, f"{name}.int8") if (graphs / f"{variant}.onnx").is_file()]
        with contextlib.ExitStack() as stack, np.load(graphs / f"{name}.npz") as file:
            inputs = dict(file)
            runtimes = [
                stack.enter_context(contextlib.closing(TensorRtRuntime([plan(graphs, out, variant, batches)], variant)))
                for variant in variants
            ]
            for batch in batches:
                some = {key: values[:batch] for key, values in inputs.items()}
                taken: list[list[float]] = [[] for _ in runtimes]
                for runtime in runtimes:
                    runtime.time(some, WARM_UP_RUNS)
                for _ in range(ROUNDS):
                    for runtime, times in zip(runtimes, taken, strict=True):
                        times.extend(runtime.time(some, RUNS))
                print(row(name, batch, eager.get(f"{name}:{batch}"), [statistics.median(times) for times in taken]))
            for variant, runtime in zip(variants, runtimes, strict=True):
                show_layers(variant, runtime, {key: values[: batches[0]] for key, values in inputs.items()})
    return 0


def plan(graphs: Path, out: Path, name: str, batches: tuple[int, ...]) -> bytes:
    """From OUT, or built; at TensorRT's own optimisation level unless $EDGE_GPU_LEVEL says otherwise."""
    level = int(os.environ.get("EDGE_GPU_LEVEL", str(DEFAULT_LEVEL)))
    path = out / f"{name}-{'-'.join(map(str, batches))}.level{level}.plan"
    if not path.is_file():
        request = BuildRequest(
            graphs / f"{name}.onnx", path, batches, int8=name.endswith(".int8"), level=level,
            workspace_bytes=default_workspace_bytes(), timing_cache=out / "timing.cache", external_kernels=False,
        )   # fmt: skip
        built = build(request, lambda message: None, timeout_s=500)
        print(f"built {path.name} in {built.seconds:.0f} s", file=sys.stderr, flush=True)
    return path.read_bytes()


def row(name: str, batch: int, eager_ms: float | None, medians_ms: Sequence[float]) -> str:
    """One line of the table."""
    half = medians_ms[0]
    int8 = medians_ms[1] if len(medians_ms) > 1 else None
    cells = [
        name, str(batch), f"{eager_ms:.3f}" if eager_ms else "", f"{half:.3f}", f"{int8:.3f}" if int8 else "",
        f"{eager_ms / half:.1f}" if eager_ms else "", f"{half / int8:.2f}" if int8 else "",
    ]   # fmt: skip
    return f"| {' | '.join(cells)} |"


def show_layers(name: str, runtime: TensorRtRuntime, inputs: dict[str, np.ndarray]) -> None:
    """The layers that take longest, and what conversions between layouts and types take together."""
    times = runtime.profile(inputs)
    total = sum(times.values())
    reformats = {layer: ms for layer, ms in times.items() if "reformat" in layer.lower() or "copy" in layer.lower()}
    moved = sum(reformats.values())
    print(f"{name}: {len(times)} layers, {total:.3f} ms in sum; {len(reformats)} reformats, {moved:.3f} ms")
    for layer, milliseconds in sorted(times.items(), key=lambda entry: -entry[1])[:SHOWN_LAYERS]:
        print(f"    {milliseconds:.4f} ms  {layer[:100]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
