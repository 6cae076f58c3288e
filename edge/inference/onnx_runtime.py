"""ONNX Runtime on the processor: one thread per run, many runs at once."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from types import ModuleType
from typing import Any, cast

import numpy.typing as npt

from edge.errors import DetectorError, UnavailableError
from edge.telemetry import refuse_telemetry
from edge.types import Float32, UInt8

# Larger pictures are run one at a time: activations at 1920x1088 take 110 MB with YuNet and 280 MB with CenterFace,
# and such runs are rare enough (see ScanSchedule) that two at once would gain nothing.
LARGE_PICTURE_PX = 700_000


def load_onnxruntime() -> ModuleType:
    """The library, without its telemetry. Raises UnavailableError when it is not installed."""
    refuse_telemetry()
    try:
        import onnxruntime
    except ImportError as error:
        raise UnavailableError(f"ONNX Runtime cannot be loaded ({error})", "pip install onnxruntime") from error
    return cast(ModuleType, onnxruntime)


class OnnxRuntime:
    """A session with one thread of its own, so that frames, not layers, share the cores: no barriers, no idling.

    One session runs all sizes: weights are in memory once. graph: serialised, one uint8 (1, H, W, 3) input. title: for
    messages. kind: of graph, for `describe`. engine_sha256: where it was built here. Thread-safe. Raises
    UnavailableError when ONNX Runtime is missing or refuses the graph.
    """

    def __init__(self, graph: bytes, title: str, kind: str = "", engine_sha256: str = "") -> None:
        onnxruntime = load_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = 3
        # A pattern is one block of memory per input size, kept; without, sizes share what the arena has.
        options.enable_mem_pattern = False
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        # Sums that die away in black pictures become denormal numbers, which take a hundred times as long.
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        try:
            self._session: Any = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except Exception as error:      # its exceptions share no base class
            raise UnavailableError(f"ONNX Runtime refuses {title} ({error})", "check the model file") from error
        self.engine_sha256 = engine_sha256
        self.parallel_runs = len(os.sched_getaffinity(0))
        self._runs = itertools.count(1)     # its steps are atomic
        self._last_run = 0
        self._one_large_run = threading.Lock()
        self._input_name = self._session.get_inputs()[0].name
        self._output_names = [output.name for output in self._session.get_outputs()]
        self._description = f"ONNX Runtime {onnxruntime.__version__} (CPU){f', {kind}' if kind else ''}"

    def run(self, picture: UInt8) -> dict[str, Float32]:
        """Feature maps by name. Raises DetectorError when the run fails."""
        large = picture.shape[1] * picture.shape[2] > LARGE_PICTURE_PX
        try:
            with self._one_large_run if large else nullcontext():
                maps = self._session.run(self._output_names, {self._input_name: picture})
        except Exception as error:
            raise DetectorError(f"ONNX Runtime failed ({error})") from error
        self._last_run = next(self._runs)
        return dict(zip(self._output_names, maps, strict=True))

    def batches(self) -> Mapping[int, int]:
        """See `Runtime.batches`: pictures are run one by one."""
        return {1: self._last_run} if self._last_run else {}

    def run_network(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, Float32]:
        """Outputs by name for a network with any inputs. Raises DetectorError when the run fails."""
        try:
            values = self._session.run(self._output_names, dict(inputs))
        except Exception as error:
            raise DetectorError(f"ONNX Runtime failed ({error})") from error
        return dict(zip(self._output_names, values, strict=True))

    def describe(self) -> str:
        """For people."""
        return self._description

    def close(self) -> None:
        """Drop the session and its memory. Harmless when repeated."""
        self._session = None
