"""TensorRT engines on the GPU behind the runtime protocol."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from edge.errors import DetectorError
from edge.inference.gpu_thread import Call, GpuThread, Request, Shapes
from edge.inference.lane import Inputs
from edge.types import Float32, UInt8

Result = TypeVar("Result")


class TensorRtRuntime:
    """Engines of one network, each for one input size. `run` may be called from several threads at once.

    payloads: plans as `edge.engines.store.load_engine` gives them. title: of the network, for messages. kind: of
    engine, for `describe`. graphs: see `Lane`.
    Calls of the same size from several threads share a batch, up to the largest that the engine was built for.
    Raises UnavailableError when CUDA or TensorRT is not there or refuses a plan.

    `run` raises DetectorError when one run failed, and DeviceLostError from when on the GPU takes no more work.
    """

    def __init__(self, payloads: Sequence[bytes], title: str, kind: str = "", graphs: bool = True) -> None:
        self._owner = GpuThread(payloads, title, graphs)
        self._title = title
        owner = self._owner
        self._inputs = tuple(tensor.name for tensor in owner.engines[0].inputs)
        self._most = {shapes: lanes[-1].most_batch for shapes, lanes in owner.lanes.items()}
        self._least = {shapes: lanes[0].least_batch for shapes, lanes in owner.lanes.items()}
        self._description = f"{owner.library.title} ({owner.gpu}{f', {kind}' if kind else ''})"
        # Runs also when nobody calls close, and before the interpreter takes the libraries apart.
        self._finalizer = weakref.finalize(self, owner.stop)

    @property
    def engine_sha256(self) -> str:
        """Not known here: plans are bytes. See `EngineRuntime`."""
        return ""

    @property
    def parallel_runs(self) -> int:
        """One full batch that runs, and one that gathers meanwhile."""
        return 2 * max(self._most.values())

    def batches(self) -> Mapping[int, int]:
        """See `Runtime.batches`."""
        return self._owner.batches

    @property
    def sizes(self) -> frozenset[tuple[int, int]]:
        """Height and width of the pictures that there is an engine for."""
        return frozenset((shapes[0][0], shapes[0][1]) for shapes in self._most if len(shapes) == 1)

    def run(self, picture: UInt8) -> dict[str, Float32]:
        """Outputs by name for pictures, uint8 (batch, height, width, 3) RGB; usually one."""
        return self.run_network({self._inputs[0]: picture})

    def run_network(self, inputs: Inputs) -> dict[str, Float32]:
        """Outputs by name, as float32, for a network with any inputs, batch first."""
        return self._owner.submit(self._request(inputs))     # type: ignore[no-any-return]

    def example(self, batch: int) -> dict[str, npt.NDArray[Any]]:
        """Inputs of the first engine's size, the same at every call: bytes, or normal numbers."""
        random = np.random.default_rng(0)
        made: dict[str, npt.NDArray[Any]] = {}
        for tensor in self._owner.engines[0].inputs:
            shape = (batch, *tensor.shape[1:])
            values = random.integers(0, 256, shape) if tensor.dtype == np.uint8 else random.normal(size=shape)
            made[tensor.name] = values.astype(tensor.dtype)
        return made

    def time(self, inputs: Inputs, runs: int) -> list[float]:
        """Milliseconds that the GPU took for `inputs` as one batch, for each of `runs` runs; without copies."""
        request = self._request(inputs)
        return self._in_owner(lambda: self._owner.lane([request]).time([inputs], runs))

    def profile(self, inputs: Inputs, runs: int = 20) -> dict[str, float]:
        """Mean milliseconds per layer, in the order in which they run. Measure nothing else with this afterwards."""
        request, total = self._request(inputs), dict[str, float]()

        def add(name: str, milliseconds: float) -> None:
            total[name] = total.get(name, 0.0) + milliseconds / runs

        self._in_owner(lambda: self._owner.lane([request]).profile_layers([inputs], runs, add))
        return total

    def layers(self) -> list[dict[str, Any]]:
        """Layers of the first engine as TensorRT describes them; see `Engine.layers`."""
        return self._in_owner(self._owner.engines[0].layers)

    def describe(self) -> str:
        """For people."""
        return self._description

    def close(self) -> None:
        """Give the GPU's memory back. Harmless when repeated; runs under way are finished first."""
        self._finalizer()

    def _in_owner(self, function: Callable[[], Result]) -> Result:
        return self._owner.submit(Call(function))      # type: ignore[no-any-return]

    def _request(self, inputs: Inputs) -> Request:
        try:
            arrays = [inputs[name] for name in self._inputs]
        except KeyError as error:
            raise DetectorError(f"{self._title} needs the input {error}") from None
        shapes = tuple(tuple(array.shape[1:]) for array in arrays)
        batch = len(arrays[0])
        if shapes not in self._most:
            raise DetectorError(f"{self._title} has no engine for inputs of {_text(shapes)}")
        if not self._least[shapes] <= batch <= self._most[shapes]:
            raise DetectorError(f"{self._title} takes batches of up to {self._most[shapes]}, not {batch}")
        return Request(inputs, shapes, batch)


def _text(shapes: Shapes) -> str:
    return ", ".join("x".join(map(str, shape)) for shape in shapes)
