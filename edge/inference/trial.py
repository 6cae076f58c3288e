"""Whether a model works at all, before a run depends on it."""

from __future__ import annotations

import numpy as np

from edge.errors import UnavailableError
from edge.inference.local_network import READERS
from edge.inference.runtime import open_runtime
from edge.models.choose import ResolvedModel

_SIZES_PX = ((192, 320), (64, 96))      # two, so that a graph that was made for one size is found out


def try_model(resolved: ResolvedModel) -> str:
    """Prepare the graph and run it on grey pictures; returns what it ran on.

    Raises UnavailableError when the graph cannot be prepared or read, DetectorError when it gives something else.
    """
    model = resolved.description
    if model.family not in READERS:
        raise UnavailableError(f"there is no reader for models of the family {model.family}", "see docs/models.md")
    runtime = open_runtime("onnxruntime", resolved.path, model)
    try:
        for height, width in _SIZES_PX:
            maps = runtime.run(np.full((1, height, width, 3), 128, np.uint8))
            READERS[model.family](maps, model, height, width, 0.5)
        return runtime.describe()
    finally:
        runtime.close()
