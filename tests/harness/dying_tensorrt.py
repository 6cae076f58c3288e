"""Passes for TensorRT as far as a build goes, and dies as real ones do: for the tests of the retries.

``$DYING_TENSORRT`` is a list of what happens to builds by their limits, such as ``1024:SIGKILL,0:ok``: the first entry
whose MiB the workspace reaches counts. ``ok`` writes the limits as the plan; ``memory`` and ``refused`` fail with a
message; a signal ends the process, after an error in the log; ``hang`` hangs.
"""

from __future__ import annotations

import enum
import os
import signal
import time
from typing import Any

__version__ = "8.6.2"

NetworkDefinitionCreationFlag = enum.IntEnum("NetworkDefinitionCreationFlag", {"EXPLICIT_BATCH": 0})
BuilderFlag = enum.IntEnum("BuilderFlag", {"FP16": 0, "INT8": 1})
MemoryPoolType = enum.IntEnum("MemoryPoolType", {"WORKSPACE": 0})
ProfilingVerbosity = enum.IntEnum("ProfilingVerbosity", {"DETAILED": 1})


class ILogger:
    """What Python code implements."""

    Severity = enum.IntEnum("Severity", {"INTERNAL_ERROR": 0, "ERROR": 1, "WARNING": 2, "INFO": 3, "VERBOSE": 4})


class _Config:
    def __init__(self) -> None:
        self.limits: dict[Any, int] = {}
        self.builder_optimization_level = 3

    def set_memory_pool_limit(self, pool: MemoryPoolType, size: int) -> None:
        self.limits[pool] = size

    def set_flag(self, flag: BuilderFlag) -> None:
        pass


class _Network:
    num_inputs = 0


class OnnxParser:
    """Takes everything."""

    def __init__(self, network: _Network, logger: Any) -> None:
        pass

    def parse_from_file(self, path: str) -> bool:
        return True


class Builder:
    """Its builds end as the environment says."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def create_network(self, flags: int) -> _Network:
        return _Network()

    def create_builder_config(self) -> _Config:
        return _Config()

    def build_serialized_network(self, network: _Network, config: _Config) -> bytes | None:
        workspace_mib = config.limits[MemoryPoolType.WORKSPACE] >> 20
        entries = [entry.split(":") for entry in os.environ["DYING_TENSORRT"].split(",")]
        end = next(end for least, end in entries if workspace_mib >= int(least))
        severity = ILogger.Severity.ERROR
        if end == "ok":
            return f"{workspace_mib} MiB, level {config.builder_optimization_level}".encode()
        if end == "memory":
            self._logger.log(severity, "[tactic] Error Code 2: OutOfMemory (no further information)")
            return None
        if end == "refused":
            self._logger.log(severity, "Error Code 4: Internal Error (chooseHigherPrecision)")
            return None
        self._logger.log(severity, "about to fail")
        if end == "hang":
            time.sleep(60)
        os.kill(os.getpid(), signal.Signals[end])
        time.sleep(10)
        return None
