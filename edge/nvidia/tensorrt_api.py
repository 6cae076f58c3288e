"""TensorRT from 8.6 to 11, and TensorRT-RTX: the one module that imports it and knows how its versions differ.

Its objects are used elsewhere only through what is the same in all of them: named tensors, ``set_tensor_address``,
``execute_async_v3``, ``build_serialized_network``, ``set_memory_pool_limit``. What differs (docs/int8.md):

=============================  =============================  ============================================
What                           8.6 to 10.12                   10.13, 11 and TensorRT-RTX
=============================  =============================  ============================================
types                          flags FP16, INT8               written in the graph: strongly typed network
``EXPLICIT_BATCH``             needed up to 9, then optional  gone in 11
scratch memory of an engine    ``device_memory_size``         ``device_memory_size_v2`` (from 10.1)
context without scratch        its own method up to 9         allocation strategy (from 10.0)
giving scratch to a context    attribute ``device_memory``    ``set_device_memory`` (from 10.1)
progress                       none up to 9                   ``progress_monitor`` (from 10.0)
=============================  =============================  ============================================
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from edge.errors import UnavailableError
from edge.nvidia.callbacks import Log, ProgressSink, make_logger, make_monitor, make_profiler

if TYPE_CHECKING:
    import tensorrt as trt

# Weak typing is deprecated since 10.12; from 10.13 on networks are strongly typed (docs/int8.md).
STRONGLY_TYPED_FROM = (10, 13)
OLDEST = (8, 6)
INSTALL = "on a Jetson: apt install python3-libnvinfer, and make the virtual environment with --system-site-packages"
# tensorrt.nptype names np.bool, which NumPy 1.24 removed, in the versions of JetPack 5 and 6.
DTYPES: dict[str, npt.DTypeLike] = {
    "FLOAT": np.float32, "HALF": np.float16, "INT8": np.int8, "INT32": np.int32, "INT64": np.int64,
    "BOOL": np.bool_, "UINT8": np.uint8,
}   # fmt: skip

ShapeRange = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
if TYPE_CHECKING:       # annotations of other modules, which do not import TensorRT
    BuilderT: TypeAlias = trt.Builder
    NetworkT: TypeAlias = trt.INetworkDefinition
    ConfigT: TypeAlias = trt.IBuilderConfig
    ParserT: TypeAlias = trt.OnnxParser
    RuntimeT: TypeAlias = trt.Runtime
    EngineT: TypeAlias = trt.ICudaEngine
    ContextT: TypeAlias = trt.IExecutionContext


class TensorRt:
    """The library. Made by `load_tensorrt`.

    title: name and version, for people. strongly_typed: whether types are written in the graph.
    """

    def __init__(self, module: ModuleType) -> None:
        self._module: Any = module
        self.version = str(module.__version__)
        self.is_rtx = module.__name__ == "tensorrt_rtx"
        self.title = f"TensorRT{'-RTX' if self.is_rtx else ''} {self.version}"
        numbers = tuple(int(number) for number in re.findall(r"\d+", self.version)[:2])
        flags = module.NetworkDefinitionCreationFlag.__members__
        weak = "FP16" in module.BuilderFlag.__members__
        self.strongly_typed = not weak or (numbers >= STRONGLY_TYPED_FROM and "STRONGLY_TYPED" in flags)
        self.log = Log()
        self._logger = make_logger(self._module, self.log)

    # Making things

    def builder(self) -> trt.Builder:
        """Raises UnavailableError when there is no GPU that TensorRT can build for."""
        builder: trt.Builder = self._made(self._module.Builder, "builder")
        return builder

    def runtime(self) -> trt.Runtime:
        """Raises UnavailableError when there is no GPU that TensorRT can run on."""
        runtime: trt.Runtime = self._made(self._module.Runtime, "runtime")
        return runtime

    def network(self, builder: trt.Builder) -> trt.INetworkDefinition:
        """An empty network whose batch axis is explicit; strongly typed where this version wants that."""
        return builder.create_network(self.network_flags())

    def parser(self, network: trt.INetworkDefinition) -> trt.OnnxParser:
        """An ONNX parser that fills `network`."""
        parser: trt.OnnxParser = self._module.OnnxParser(network, self._logger)
        return parser

    def network_flags(self) -> int:
        """Argument of ``create_network``."""
        known = self._module.NetworkDefinitionCreationFlag.__members__
        wanted = ["EXPLICIT_BATCH", *(["STRONGLY_TYPED"] if self.strongly_typed else [])]
        return sum(1 << int(known[name]) for name in wanted if name in known)

    def network_inputs(self, network: trt.INetworkDefinition) -> dict[str, tuple[int, ...]]:
        """Shapes by name; -1 where a side is free."""
        tensors: list[Any] = [network.get_input(index) for index in range(network.num_inputs)]
        return {tensor.name: tuple(tensor.shape) for tensor in tensors}

    # Configuring a build

    def add_profile(
        self, builder: trt.Builder, config: trt.IBuilderConfig, shapes: Mapping[str, ShapeRange]
    ) -> None:
        """Add an optimisation profile; least, best and largest shape of each input. Raises UnavailableError."""
        profile: Any = builder.create_optimization_profile()
        for name, (least, best, largest) in shapes.items():
            profile.set_shape(name, least, best, largest)
        if config.add_optimization_profile(profile) < 0:
            raise UnavailableError(f"TensorRT refuses the shapes {dict(shapes)} ({self.log.last_errors()})")

    def set_precision(self, config: trt.IBuilderConfig, half: bool, int8: bool) -> None:
        """Allow FP16 and INT8 kernels. Does nothing on a strongly typed network, where the graph says it all.

        INT8 is needed beside Q/DQ nodes, or the build fails.
        """
        if self.strongly_typed:
            return
        for name, wanted in (("FP16", half), ("INT8", int8)):
            if wanted:
                config.set_flag(self._module.BuilderFlag.__members__[name])

    def set_workspace(self, config: trt.IBuilderConfig, limit_bytes: int) -> None:
        """What a kernel may use beside its tensors; kernels that want more are not considered."""
        config.set_memory_pool_limit(self._module.MemoryPoolType.WORKSPACE, limit_bytes)

    def set_detailed(self, config: trt.IBuilderConfig) -> None:
        """Keep layer names, types and formats in the engine, so that they can be asked for."""
        config.profiling_verbosity = self._module.ProfilingVerbosity.DETAILED

    def refuse_external_kernels(self, config: trt.IBuilderConfig) -> None:
        """Leave out kernels of cuDNN and cuBLAS; versions without them have nothing to leave out."""
        if hasattr(config, "set_tactic_sources"):
            config.set_tactic_sources(0)

    def set_level(self, config: trt.IBuilderConfig, level: int) -> None:
        """0 (quick build) to 5 (quick engine); 3 is TensorRT's default."""
        config.builder_optimization_level = level

    def set_target(self, config: trt.IBuilderConfig, compute_capability: str) -> bool:
        """Build for this GPU instead of the one that is here; only TensorRT-RTX can. compute_capability: ``8.6``."""
        wanted = getattr(self._module, "ComputeCapability", None)
        if wanted is None or not hasattr(config, "set_compute_capability"):
            return False
        name = "SM" + compute_capability.replace(".", "")
        anything: Any = config
        anything.num_compute_capabilities = 1
        anything.set_compute_capability(wanted.__members__[name], 0)
        return True

    def set_progress(self, config: trt.IBuilderConfig, sink: ProgressSink) -> bool:
        """Report progress to `sink`; False where this version cannot."""
        if not hasattr(self._module, "IProgressMonitor") or not hasattr(config, "progress_monitor"):
            return False
        config.progress_monitor = make_monitor(self._module, sink)
        return True

    # Running

    def dtype(self, tensor_type: trt.DataType) -> np.dtype[Any]:
        """NumPy's type for TensorRT's. Raises UnavailableError for one that NumPy does not have."""
        name: str = tensor_type.name
        if name not in DTYPES:
            raise UnavailableError(f"tensors of type {name} cannot be read", "give the network float tensors")
        return np.dtype(DTYPES[name])

    def is_input(self, engine: trt.ICudaEngine, name: str) -> bool:
        """Whether the tensor `name` goes in."""
        return bool(engine.get_tensor_mode(name) == self._module.TensorIOMode.INPUT)

    def scratch_bytes(self, engine: trt.ICudaEngine) -> int:
        """Memory that a context needs while it runs, for the largest shapes of any profile."""
        newer = hasattr(engine, "device_memory_size_v2")
        return int(engine.device_memory_size_v2 if newer else engine.device_memory_size)

    def context(self, engine: trt.ICudaEngine, own_scratch: bool) -> trt.IExecutionContext | None:
        """A context; without own_scratch, `give_scratch` must follow. None when TensorRT refuses."""
        if own_scratch:
            return engine.create_execution_context()
        strategy = getattr(self._module, "ExecutionContextAllocationStrategy", None)
        if strategy is not None:
            return engine.create_execution_context(strategy.USER_MANAGED)
        return engine.create_execution_context_without_device_memory()

    def give_scratch(self, context: trt.IExecutionContext, address: int, size_bytes: int) -> None:
        """Memory for the context to run in; contexts that never run at the same time may share it."""
        if hasattr(context, "set_device_memory"):
            context.set_device_memory(address, size_bytes)
        else:
            anything: Any = context
            anything.device_memory = address

    def inspect(self, engine: trt.ICudaEngine) -> str:
        """All layers as JSON, in as much detail as the engine was built with."""
        inspector = engine.create_engine_inspector()
        return str(inspector.get_engine_information(self._module.LayerInformationFormat.JSON))

    def profile_layers(self, context: trt.IExecutionContext, on_layer: Callable[[str, float], None]) -> None:
        """Call `on_layer(name, ms)` for each layer of each run from now on; runs wait for the GPU then."""
        context.profiler = make_profiler(self._module, on_layer)
        context.enqueue_emits_profile = True

    def _made(self, kind: Callable[[Any], Any], what: str) -> Any:
        self.log.clear()
        try:
            made = kind(self._logger)
        except TypeError:       # pybind: "factory function returned nullptr"
            made = None
        if made is None:
            why = self.log.last_errors() or "it gave no reason"
            raise UnavailableError(f"{self.title} makes no {what} ({why})", "check the driver: nvidia-smi")
        return made


@functools.cache
def load_tensorrt(module_name: str = "tensorrt") -> TensorRt:
    """The library under `module_name` (``tensorrt`` or ``tensorrt_rtx``).

    Raises UnavailableError when it is not there, does not load or is too old.
    """
    try:
        module = importlib.import_module(module_name)
    except (ImportError, OSError) as error:     # OSError: a library that it names is missing
        raise UnavailableError(f"TensorRT cannot be loaded ({error})", INSTALL) from error
    if not hasattr(module, "Builder"):          # a folder of that name, such as type stubs leave
        raise UnavailableError(f"TensorRT cannot be loaded (No module named {module_name!r})", INSTALL)
    version = str(module.__version__)
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if module_name == "tensorrt" and numbers < OLDEST:
        raise UnavailableError(
            f"TensorRT {version} is too old, 8.6 or newer is needed", "update to JetPack 6 or newer"
        )
    return TensorRt(module)


def installed_version() -> str | None:
    """Version of TensorRT, such as ``8.6.2``, or None when it is not there."""
    try:
        return load_tensorrt().version
    except UnavailableError:
        return None
