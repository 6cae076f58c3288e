"""A TensorRT engine in memory: its tensors, its optimisation profiles, and contexts to run them in."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edge.errors import UnavailableError
from edge.nvidia.tensorrt_api import TensorRt

if TYPE_CHECKING:
    from edge.nvidia.tensorrt_api import ContextT, EngineT, RuntimeT

    Dtype = np.dtype[Any]


@dataclass(frozen=True, slots=True)
class IoTensor:
    """An input or output. shape: -1 where the profile decides."""

    name: str
    is_input: bool
    dtype: Dtype
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """An optimisation profile: which batches it runs, and the largest shape of each input."""

    index: int
    least_batch: int
    most_batch: int
    shapes: dict[str, tuple[int, ...]]


class Context:
    """One profile of an engine, ready to run on one stream."""

    def __init__(self, library: TensorRt, context: ContextT, title: str) -> None:
        self._library, self._context, self._title = library, context, title

    def set_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """Shape of an input for the runs that follow."""
        self._check(self._context.set_input_shape(name, shape), f"takes no {name} of shape {shape}")

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, once those of all inputs are set."""
        return _sides(self._context.get_tensor_shape(name))

    def set_address(self, name: str, address: int) -> None:
        """Where a tensor lies, for the runs that follow."""
        self._check(self._context.set_tensor_address(name, address), f"has no tensor {name}")

    def execute(self, stream: int) -> None:
        """Queue one run. Raises UnavailableError when TensorRT refuses."""
        self._check(self._context.execute_async_v3(stream), "failed")

    def profile_layers(self, on_layer: Callable[[str, float], None]) -> None:
        """See `TensorRt.profile_layers`. Measure nothing else with this context afterwards."""
        self._library.profile_layers(self._context, on_layer)

    def _check(self, done: bool, what: str) -> None:
        if not done:
            raise UnavailableError(f"the engine of {self._title} {what} ({self._library.log.last_errors()})")


class Engine:
    """A plan, deserialised. The context of the GPU must be current in this thread.

    Raises UnavailableError with TensorRT's own words when it refuses the plan.
    """

    def __init__(self, library: TensorRt, payload: bytes, title: str) -> None:
        self._library, self._title = library, title
        self._runtime: RuntimeT | None = library.runtime()
        engine: EngineT | None = self._runtime.deserialize_cuda_engine(payload)
        if engine is None:
            why = library.log.last_errors() or "no reason given"
            message = f"{library.title} refuses the engine of {title} ({why})"
            raise UnavailableError(message, "build it again: edge-build --int8")
        self._engine: EngineT | None = engine
        names = [str(engine.get_tensor_name(place)) for place in range(engine.num_io_tensors)]
        self.tensors = tuple(
            IoTensor(
                name,
                library.is_input(engine, name),
                library.dtype(engine.get_tensor_dtype(name)),
                _sides(engine.get_tensor_shape(name)),
            )
            for name in names
        )
        self.inputs = tuple(tensor for tensor in self.tensors if tensor.is_input)
        self.outputs = tuple(tensor for tensor in self.tensors if not tensor.is_input)
        self.profiles = tuple(_profile(engine, self.inputs, index) for index in range(engine.num_optimization_profiles))
        self.scratch_bytes = library.scratch_bytes(engine)

    def context(self, profile: Profile, stream: int, scratch: tuple[int, int] | None = None) -> Context:
        """A context for `profile`. scratch: address and size of memory to run in, shared with others; None: its own."""
        context = self._library.context(self._open_engine, own_scratch=scratch is None)
        if context is None:
            why = self._library.log.last_errors()
            raise UnavailableError(f"there is no context for the engine of {self._title} ({why})", "free some memory")
        if scratch is not None:
            self._library.give_scratch(context, *scratch)
        made = Context(self._library, context, self._title)
        if not context.set_optimization_profile_async(profile.index, stream):
            raise UnavailableError(f"profile {profile.index} cannot be chosen ({self._library.log.last_errors()})")
        return made

    def layers(self) -> list[dict[str, Any]]:
        """What TensorRT made of the network, a dictionary per layer; only names unless it was built with details."""
        text = self._library.inspect(self._open_engine)
        layers = json.loads(text, strict=False).get("Layers", [])     # names may hold line breaks, as they are
        return [layer if isinstance(layer, dict) else {"Name": str(layer)} for layer in layers]

    def close(self) -> None:
        """Drop the engine; its contexts must have gone before."""
        self._engine = self._runtime = None

    @property
    def _open_engine(self) -> EngineT:
        if self._engine is None:
            raise UnavailableError(f"the engine of {self._title} is closed")
        return self._engine


def _profile(engine: EngineT, inputs: Sequence[IoTensor], index: int) -> Profile:
    least: dict[str, tuple[int, ...]] = {}
    most: dict[str, tuple[int, ...]] = {}
    for tensor in inputs:
        shapes = engine.get_tensor_profile_shape(tensor.name, index)
        least[tensor.name], most[tensor.name] = _sides(shapes[0]), _sides(shapes[2])
    first = inputs[0].name
    return Profile(index, least[first][0], most[first][0], most)


def _sides(dims: Any) -> tuple[int, ...]:
    """TensorRT's Dims can be iterated, which its types do not say."""
    return tuple(int(side) for side in dims)
