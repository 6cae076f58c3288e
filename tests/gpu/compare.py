"""How far two sets of outputs are apart, and inputs of the prepared networks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from tests.gpu.conftest import GRAPHS

Arrays = Mapping[str, npt.NDArray[Any]]


def inputs_of(name: str) -> dict[str, npt.NDArray[Any]]:
    """The prepared inputs, batch first; a variant such as ``yunet_n.int8`` has those of ``yunet_n``."""
    with np.load(GRAPHS / f"{name.partition('.')[0]}.npz") as file:
        return dict(file)


def item(inputs: Arrays, first: int, count: int = 1) -> dict[str, npt.NDArray[Any]]:
    """Some items of a batch."""
    return {name: values[first : first + count] for name, values in inputs.items()}


def onnx_outputs(path: Path, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
    """What ONNX Runtime makes of a batch, one item after the other."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    batch = len(next(iter(inputs.values())))
    each = [session.run(names, item(inputs, number)) for number in range(batch)]
    return {name: np.concatenate([values[place] for values in each]) for place, name in enumerate(names)}


def relative_error(got: Arrays, want: Arrays) -> float:
    """Norm of the difference over the norm of what is wanted, of the worst output of the worst item."""
    assert set(got) == set(want)
    worst = 0.0
    for name in want:
        assert got[name].shape == want[name].shape, name
        assert np.isfinite(got[name]).all(), name
        difference = (got[name].astype(np.float64) - want[name]).reshape(len(want[name]), -1)
        size = want[name].astype(np.float64).reshape(len(want[name]), -1)
        worst = max(worst, float((np.linalg.norm(difference, axis=1) / np.linalg.norm(size, axis=1)).max()))
    return worst
