"""First try of the TensorRT runtime on a GPU machine: build, run, compare with ONNX Runtime, time, take apart.

    python -m tests.gpu.smoke GRAPHS OUT [NAME]     # GRAPHS: made by tests.gpu.graphs; OUT: timing cache and plans
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from build_engines.tensorrt_builder import BuildRequest, build, default_workspace_bytes
from edge.device import this_device
from edge.inference.onnx_runtime import OnnxRuntime
from edge.inference.tensorrt import TensorRtRuntime


def main(arguments: Sequence[str]) -> int:
    """Print what happens; 0 when all is well."""
    graphs, out, name = Path(arguments[0]), Path(arguments[1]), (arguments[2:] or ["yunet_n"])[0]
    print("device:", this_device(), flush=True)
    inputs = np.load(graphs / f"{name}.npz")["picture"]
    request = BuildRequest(
        graph=graphs / f"{name}.onnx", plan=out / f"{name}.plan", batches=(1, 8), level=1,
        workspace_bytes=default_workspace_bytes(), timing_cache=out / "timing.cache", external_kernels=False,
    )   # fmt: skip
    built = build(request, lambda message: print("  ", str(message)[:300], flush=True), timeout_s=400)
    print(f"built: {built.seconds:.1f} s, {built.bytes >> 10} KiB", flush=True)

    started_s = time.monotonic()
    runtime = TensorRtRuntime([request.plan.read_bytes()], name)
    opened_s = time.monotonic() - started_s
    print(f"opened: {runtime.describe()}, sizes {sorted(runtime.sizes)}, {opened_s:.2f} s", flush=True)
    reference = OnnxRuntime(request.graph.read_bytes(), name)
    expected = [reference.run(picture[None]) for picture in inputs]
    worst = 0.0
    for label, outputs in (
        ("batch 1", [runtime.run(picture[None]) for picture in inputs]),
        ("batch 8", _split(runtime.run(inputs))),
        ("batch 3", _split(runtime.run(inputs[:3]))),
        ("8 threads", _from_threads(runtime, inputs)),
    ):
        error = max(_relative_error(got, want) for got, want in zip(outputs, expected, strict=False))
        worst = max(worst, error)
        print(f"{label}: largest error {error:.2e} of the rms", flush=True)
    for batch in (1, 8):
        times = runtime.time({"picture": inputs[:batch]}, 100)
        wall_s = _wall_s(runtime, inputs[:batch])
        print(f"batch {batch}: GPU {statistics.median(times):.3f} ms, with copies {wall_s * 1e3:.3f} ms", flush=True)
    plain = TensorRtRuntime([request.plan.read_bytes()], name, graphs=False)
    times, wall_s = plain.time({"picture": inputs[:1]}, 100), _wall_s(plain, inputs[:1])
    print(f"batch 1, plain: GPU {statistics.median(times):.3f} ms, with copies {wall_s * 1e3:.3f} ms", flush=True)
    print(f"graph: {next(iter(runtime._owner.lanes.values()))[0]._run_graph}", flush=True)
    plain.close()
    with ThreadPoolExecutor(8) as threads:
        started_s = time.monotonic()
        list(threads.map(lambda number: runtime.run(inputs[number % 8][None]), range(800)))
        print(f"8 threads: {800 / (time.monotonic() - started_s):.0f} pictures/s", flush=True)
    slowest = sorted(runtime.profile({"picture": inputs}).items(), key=lambda item: -item[1])[:5]
    print("slowest layers:", [(layer[:60], round(milliseconds, 4)) for layer, milliseconds in slowest], flush=True)
    print(f"layers: {len(runtime.layers())}, first: {str(runtime.layers()[0])[:300]}", flush=True)
    runtime.close()
    runtime.close()
    print("closed", flush=True)
    again = TensorRtRuntime([request.plan.read_bytes()], name)     # left open: the end of the process closes it
    print(f"again: {_relative_error(again.run(inputs[:1]), expected[0]):.2e}", flush=True)
    return 0 if worst < 0.05 else 1


def _split(outputs: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    batch = len(next(iter(outputs.values())))
    return [{name: values[item : item + 1] for name, values in outputs.items()} for item in range(batch)]


def _from_threads(runtime: TensorRtRuntime, inputs: np.ndarray) -> list[dict[str, np.ndarray]]:
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda picture: runtime.run(picture[None]), inputs))


def _relative_error(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> float:
    assert set(got) == set(want)
    return max(
        float(np.abs(got[name] - want[name]).max() / np.sqrt(np.square(want[name]).mean())) for name in want
    )


def _wall_s(runtime: TensorRtRuntime, inputs: np.ndarray) -> float:
    times = []
    for _ in range(100):
        started_s = time.monotonic()
        runtime.run(inputs)
        times.append(time.monotonic() - started_s)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
