"""Which way each version of TensorRT goes. The libraries themselves run in tests/gpu and test_tensorrt_builder.py.

A stand-in has just the names that a version has, read from the Python bindings of its release; nothing of what it does.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edge.errors import UnavailableError
from edge.nvidia.callbacks import Log
from edge.nvidia.tensorrt_api import TensorRt, installed_version, load_tensorrt

Severity = enum.IntEnum("Severity", {"INTERNAL_ERROR": 0, "ERROR": 1, "WARNING": 2, "INFO": 3, "VERBOSE": 4})


class Interface:
    """Base of what Python code may implement: ILogger, IProfiler, IProgressMonitor."""

    Severity = Severity


def module(version: str) -> ModuleType:
    """The names of `version` that differ from those of other versions."""
    numbers = tuple(int(number) for number in version.split(".")[:2])
    made: Any = ModuleType("tensorrt_rtx" if numbers < (2, 0) else "tensorrt")
    ten, eleven = numbers >= (10, 0) or numbers < (2, 0), numbers >= (11, 0) or numbers < (2, 0)
    creation = {} if eleven else {"EXPLICIT_BATCH": 0}
    creation |= {"STRONGLY_TYPED": 1} if ten else {}
    made.__version__ = version
    made.ILogger = made.IProfiler = Interface
    made.NetworkDefinitionCreationFlag = enum.IntEnum("NetworkDefinitionCreationFlag", creation)
    made.BuilderFlag = enum.IntEnum("BuilderFlag", {"TF32": 7} if eleven else {"FP16": 0, "INT8": 1, "TF32": 7})
    made.TensorIOMode = enum.IntEnum("TensorIOMode", {"NONE": 0, "INPUT": 1, "OUTPUT": 2})
    if ten:
        made.IProgressMonitor = Interface
        made.ExecutionContextAllocationStrategy = enum.IntEnum(
            "ExecutionContextAllocationStrategy", {"STATIC": 0, "ON_PROFILE_CHANGE": 1, "USER_MANAGED": 2}
        )
    return made     # type: ignore[no-any-return]


class Recorder(SimpleNamespace):
    """An object with some attributes that remembers which of its methods were called."""

    def __init__(self, *methods: str, **attributes: Any) -> None:
        super().__init__(calls=[], **attributes)
        for name in methods:
            setattr(self, name, lambda *arguments, name=name: self.calls.append((name, *arguments)) or name)


VERSIONS = ("8.6.0", "10.0.1", "10.3.0", "10.7.0", "10.12.0", "10.13.3", "10.16.2", "11.0.0", "11.4.1", "1.7.1")


@pytest.mark.parametrize(
    ("version", "flags", "strongly_typed"),
    [
        ("8.6.0", 1, False), ("8.6.2", 1, False), ("10.0.1", 1, False), ("10.3.0", 1, False), ("10.7.0", 1, False),
        ("10.12.0", 1, False), ("10.13.3", 3, True), ("10.16.2", 3, True), ("11.0.0", 2, True), ("11.4.1", 2, True),
        ("1.7.1", 2, True),
    ],
)   # fmt: skip
def test_network_flags(version: str, flags: int, strongly_typed: bool) -> None:
    library = TensorRt(module(version))
    assert (library.network_flags(), library.strongly_typed) == (flags, strongly_typed)
    assert library.title == f"TensorRT{'-RTX' if version == '1.7.1' else ''} {version}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("half", "int8", "wanted"), [(1, 0, [0]), (1, 1, [0, 1]), (0, 0, []), (0, 1, [1])])
def test_precision_is_a_flag_or_in_the_graph(version: str, half: bool, int8: bool, wanted: list[int]) -> None:
    library, config = TensorRt(module(version)), Recorder("set_flag")
    library.set_precision(config, half, int8)   # type: ignore[arg-type]
    assert config.calls == ([] if library.strongly_typed else [("set_flag", flag) for flag in wanted])


@pytest.mark.parametrize(
    ("version", "engine", "bytes_"),
    [
        ("8.6.0", Recorder(device_memory_size=8), 8),
        ("10.0.1", Recorder(device_memory_size=8), 8),
        ("10.3.0", Recorder(device_memory_size=8, device_memory_size_v2=9), 9),
        ("11.0.0", Recorder(device_memory_size_v2=9), 9),
    ],
)
def test_scratch_size(version: str, engine: Any, bytes_: int) -> None:
    assert TensorRt(module(version)).scratch_bytes(engine) == bytes_


@pytest.mark.parametrize("version", VERSIONS)
def test_contexts_without_memory_of_their_own(version: str) -> None:
    made: Any = module(version)
    old = Recorder("create_execution_context", "create_execution_context_without_device_memory")
    TensorRt(made).context(old, own_scratch=False)      # type: ignore[arg-type]
    if version.startswith("8."):
        assert old.calls == [("create_execution_context_without_device_memory",)]
    else:
        assert old.calls == [("create_execution_context", made.ExecutionContextAllocationStrategy.USER_MANAGED)]
    own = Recorder("create_execution_context")
    TensorRt(made).context(own, own_scratch=True)       # type: ignore[arg-type]
    assert own.calls == [("create_execution_context",)]


def test_giving_scratch_to_a_context() -> None:
    old, new = Recorder(device_memory=0), Recorder("set_device_memory")
    TensorRt(module("8.6.2")).give_scratch(old, 4096, 100)      # type: ignore[arg-type]
    TensorRt(module("11.0.0")).give_scratch(new, 4096, 100)     # type: ignore[arg-type]
    assert old.device_memory == 4096
    assert new.calls == [("set_device_memory", 4096, 100)]


@pytest.mark.parametrize("version", VERSIONS)
def test_progress_where_there_is_some(version: str) -> None:
    config = Recorder() if version.startswith("8.") else Recorder(progress_monitor=None)
    seen: list[tuple[str, int, int]] = []
    there = TensorRt(module(version)).set_progress(config, lambda *step: seen.append(step) is None)  # type: ignore[arg-type]
    assert there == (not version.startswith("8."))
    if there:
        config.progress_monitor.phase_start("Tactics", None, 40)
        assert config.progress_monitor.step_complete("Tactics", 3)
        config.progress_monitor.phase_finish("Tactics")
        assert seen == [("Tactics", 3, 40)]


def test_only_rtx_builds_for_another_gpu() -> None:
    made: Any = module("1.7.1")
    made.ComputeCapability = enum.IntEnum("ComputeCapability", {"SM86": 86})
    config = Recorder("set_compute_capability", num_compute_capabilities=0)
    assert TensorRt(made).set_target(config, "8.6")     # type: ignore[arg-type]
    assert (config.num_compute_capabilities, config.calls) == (1, [("set_compute_capability", 86, 0)])
    assert not TensorRt(module("10.3.0")).set_target(Recorder(), "8.6")     # type: ignore[arg-type]


def test_types_are_ours_not_numpy_s_of_the_day() -> None:
    library = TensorRt(module("8.6.0"))
    kinds: Any = enum.IntEnum("DataType", ["FLOAT", "HALF", "INT8", "INT32", "INT64", "BOOL", "UINT8", "FP8"])
    expected = [np.float32, np.float16, np.int8, np.int32, np.int64, np.bool_, np.uint8]
    assert [library.dtype(kind) for kind in list(kinds)[:-1]] == expected
    with pytest.raises(UnavailableError, match="FP8"):
        library.dtype(kinds.FP8)


def test_the_log_keeps_the_last_errors() -> None:
    heard: list[tuple[str, str]] = []
    log = Log(lambda *line: heard.append(line))
    log.add("info", "building")
    log.add("warning", "slow")
    assert log.last_errors() == "slow"
    for number in range(1000):
        log.add("error", f"error {number}")
    log.add("info", "end")
    assert log.last_errors(2) == "error 998 | error 999"
    assert log.tail(2) == "error: error 999\ninfo: end"
    assert len(heard) == 1003
    log.clear()
    assert (log.last_errors(), log.tail()) == ("", "")


def test_the_logger_passes_on_all_but_chatter() -> None:
    library = TensorRt(module("8.6.0"))
    for severity in Severity:
        library._logger.log(severity, severity.name)
    assert library.log.tail() == "internal_error: INTERNAL_ERROR\nerror: ERROR\nwarning: WARNING\ninfo: INFO"


@pytest.fixture
def fresh() -> Iterator[None]:
    load_tensorrt.cache_clear()
    yield
    load_tensorrt.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_a_version_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = module("8.5.2")
    made.Builder = object
    monkeypatch.setitem(__import__("sys").modules, "tensorrt", made)
    with pytest.raises(UnavailableError, match=r"TensorRT 8\.5\.2 is too old.*JetPack 6") as caught:
        load_tensorrt()
    assert caught.value.exit_code == 69
    assert installed_version() is None


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("present", [None, ModuleType("tensorrt")], ids=["absent", "a folder of that name"])
def test_where_it_is_not(monkeypatch: pytest.MonkeyPatch, present: ModuleType | None) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorrt", present)
    with pytest.raises(UnavailableError, match="apt install python3-libnvinfer") as caught:
        load_tensorrt()
    assert caught.value.exit_code == 69
    assert installed_version() is None


def test_rtx_where_there_is_no_gpu() -> None:
    """The real library: builders need no GPU, runtimes do."""
    pytest.importorskip("tensorrt_rtx")
    library = load_tensorrt("tensorrt_rtx")
    builder = library.builder()
    network = library.network(builder)
    assert library.strongly_typed
    assert network.get_flag(library._module.NetworkDefinitionCreationFlag.STRONGLY_TYPED)


# Everything that is called without a choice between versions.
USED = {
    "Builder": ["create_network", "create_builder_config", "create_optimization_profile", "build_serialized_network"],
    "IBuilderConfig": [
        "set_memory_pool_limit", "add_optimization_profile", "builder_optimization_level", "profiling_verbosity",
        "set_tactic_sources", "create_timing_cache", "set_timing_cache", "get_timing_cache",
    ],
    "INetworkDefinition": ["num_inputs", "get_input"],
    "IOptimizationProfile": ["set_shape"],
    "OnnxParser": ["parse_from_file", "num_errors", "get_error"],
    "ParserError": ["node", "desc"],
    "ITimingCache": ["serialize"],
    "Runtime": ["deserialize_cuda_engine"],
    "ICudaEngine": [
        "num_io_tensors", "get_tensor_name", "get_tensor_mode", "get_tensor_dtype", "get_tensor_shape",
        "num_optimization_profiles", "get_tensor_profile_shape", "create_execution_context", "create_engine_inspector",
    ],
    "IExecutionContext": [
        "set_optimization_profile_async", "set_input_shape", "get_tensor_shape", "set_tensor_address",
        "execute_async_v3", "profiler", "enqueue_emits_profile",
    ],
    "EngineInspector": ["get_engine_information"],
    "IProfiler": ["report_layer_time"],
    "ILogger": ["log", "Severity"],
    "MemoryPoolType": ["WORKSPACE"],
    "ProfilingVerbosity": ["DETAILED"],
    "LayerInformationFormat": ["JSON"],
    "TensorIOMode": ["INPUT"],
}   # fmt: skip


@pytest.mark.parametrize("name", ["tensorrt", "tensorrt_rtx"])
def test_the_installed_library_has_what_is_used(name: str) -> None:
    """TensorRT-RTX has the API of TensorRT 11, where all that was deprecated before is gone."""
    library: Any = pytest.importorskip(name)
    if not hasattr(library, "Builder"):
        pytest.skip("only a folder of that name")
    missing = [f"{kind}.{word}" for kind, words in USED.items() for word in words
               if not hasattr(getattr(library, kind), word)]      # fmt: skip
    assert missing == []
