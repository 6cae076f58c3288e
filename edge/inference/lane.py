"""One input size and one range of batches on the GPU: a context with its buffers, ready to run without allocating."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edge.errors import UnavailableError
from edge.nvidia.cuda import Buffer, Cuda
from edge.nvidia.engine import Engine, Profile
from edge.nvidia.graph import CapturedGraph, GraphUnavailableError
from edge.types import Float32

Inputs = Mapping[str, npt.NDArray[Any]]


class Lane:
    """Lives in the thread of its `Cuda`, like everything on the GPU.

    scratch: address and size of memory that lanes share, because only one runs at a time.
    graphs: queue all work of a run at once, where its batch is fixed and the driver can (`edge.nvidia.graph`).
    """

    def __init__(
        self, cuda: Cuda, engine: Engine, profile: Profile, scratch: tuple[int, int], graphs: bool = True
    ) -> None:
        self._cuda = cuda
        self.least_batch, self.most_batch = profile.least_batch, profile.most_batch
        self._context = engine.context(profile, cuda.stream, scratch)
        cuda.wait()
        self._inputs: dict[str, Buffer] = {}
        self._outputs: dict[str, Buffer] = {}
        for tensor in engine.inputs:
            self._inputs[tensor.name] = cuda.buffer(profile.shapes[tensor.name], tensor.dtype)
            self._context.set_shape(tensor.name, profile.shapes[tensor.name])
        for tensor in engine.outputs:
            self._outputs[tensor.name] = cuda.buffer(self._context.shape(tensor.name), tensor.dtype)
        for name, buffer in {**self._inputs, **self._outputs}.items():
            self._context.set_address(name, buffer.address)
        self._batch = profile.most_batch
        self._graphs = graphs and self.least_batch == self.most_batch
        self._run_graph: CapturedGraph | None = None
        self._execute_graph: CapturedGraph | None = None
        self._ran = False

    def run(self, requests: Sequence[Inputs]) -> list[dict[str, Float32]]:
        """Run requests of one batch item or more each, together; their outputs in the same order.

        The batches of all requests together lie within `least_batch` and `most_batch`.
        """
        ends = self._load(requests)
        if self._run_graph is None and self._ran:
            self._run_graph = self._captured(self._enqueue)
        if self._run_graph is not None:
            self._run_graph.launch()
        else:
            self._enqueue()
        self._cuda.wait()
        self._ran = True
        starts = [0, *ends[:-1]]
        return [
            {name: np.array(buffer.host[start:end], np.float32) for name, buffer in self._outputs.items()}
            for start, end in zip(starts, ends, strict=True)
        ]

    def time(self, requests: Sequence[Inputs], runs: int) -> list[float]:
        """Milliseconds that the GPU takes for one batch, copies aside, for each of `runs` runs."""
        self.run(requests)
        if self._execute_graph is None:
            self._execute_graph = self._captured(self._execute)
        start = self._execute_graph.launch if self._execute_graph is not None else self._execute
        taken: list[float] = []
        for _ in range(runs):
            with self._cuda.timer() as timer:
                start()
            taken += timer
        return taken

    def profile_layers(self, requests: Sequence[Inputs], runs: int, on_layer: Callable[[str, float], None]) -> None:
        """Call `on_layer(name, ms)` for each layer of each run. The lane is slow from then on."""
        self.run(requests)
        self._context.profile_layers(on_layer)
        for _ in range(runs):
            self._execute()
            self._cuda.wait()

    def _load(self, requests: Sequence[Inputs]) -> list[int]:
        """Copy requests into pinned memory, one after the other; where each ends."""
        ends: list[int] = []
        for request in requests:
            start = ends[-1] if ends else 0
            batches = set()
            for name, buffer in self._inputs.items():
                values = request[name]
                np.copyto(buffer.host[start : start + len(values)], values, casting="same_kind")
                batches.add(len(values))
            if len(batches) != 1:
                raise ValueError(f"inputs of different batches: {sorted(batches)}")
            ends.append(start + batches.pop())
        if ends[-1] != self._batch:
            self._batch = ends[-1]
            for name, buffer in self._inputs.items():
                self._context.set_shape(name, (self._batch, *buffer.host.shape[1:]))
        return ends

    def _enqueue(self) -> None:
        for buffer in self._inputs.values():
            buffer.upload(self._batch)
        self._execute()
        for buffer in self._outputs.values():
            buffer.download(self._batch)

    def _execute(self) -> None:
        self._context.execute(self._cuda.stream)

    def _captured(self, enqueue: Callable[[], None]) -> CapturedGraph | None:
        """None, and never tried again, where it does not work."""
        if not self._graphs:
            return None
        try:
            return CapturedGraph(self._cuda.stream, enqueue)
        except (GraphUnavailableError, UnavailableError, self._cuda.errors):
            self._graphs = False
            return None

    def close(self) -> None:
        """Drop the context; the buffers belong to the `Cuda`."""
        for graph in (self._run_graph, self._execute_graph):
            if graph is not None:
                graph.close()
        del self._context
        self._inputs.clear()
        self._outputs.clear()
