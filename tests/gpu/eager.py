"""How long PyTorch takes for the prepared networks in FP32, as they stand: what engines are compared with.

    python3 -m tests.gpu.eager .gpu/graphs OUT.json NAME:BATCH...     # needs torch, onnx and onnx2torch, no TensorRT
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx2torch
import torch

WARM_UP_RUNS = 20
RUNS = 100


def main(arguments: Sequence[str]) -> int:
    """Write {"NAME:BATCH": median milliseconds} and print it."""
    graphs, target = Path(arguments[0]), Path(arguments[1])
    medians = {}
    for item in arguments[2:]:
        name, _, batch = item.partition(":")
        with np.load(graphs / f"{name}.npz") as file:
            inputs = [torch.from_numpy(values[: int(batch)]).cuda() for values in file.values()]
        model = onnx.load(graphs / f"{name}.onnx")
        for place, node in enumerate(model.graph.node):     # names that onnx2torch makes up could be there already
            node.name = f"node_{place}"
        module = onnx2torch.convert(model).cuda().eval()
        medians[item] = statistics.median(times_ms(module, inputs))
        print(f"{item}: PyTorch {torch.__version__} eager FP32 {medians[item]:.3f} ms", flush=True)
        del module
        torch.cuda.empty_cache()
    target.write_text(json.dumps(medians))
    return 0


@torch.inference_mode()
def times_ms(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> list[float]:
    """Milliseconds per run, on the GPU's own clock."""
    torch.backends.cudnn.benchmark = True
    for _ in range(WARM_UP_RUNS):
        module(*inputs)
    torch.cuda.synchronize()
    taken = []
    for _ in range(RUNS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        module(*inputs)
        end.record()
        end.synchronize()
        taken.append(start.elapsed_time(end))
    return taken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
