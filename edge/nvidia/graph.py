"""CUDA graphs: a fixed sequence of work that is queued with one call. pycuda has none, so the driver is called itself.

A network of a hundred small kernels takes the processor longer to queue than the GPU to run. NVIDIA's rule for graphs
of TensorRT: the context must have run once, and must not change afterwards, neither shapes nor addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from edge.nvidia.driver import error_name

# CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads of the process may go on using CUDA meanwhile.
_THREAD_LOCAL = 1


class GraphUnavailableError(Exception):
    """This driver, or this work, cannot be captured."""


class CapturedGraph:
    """What `enqueue` put on the stream, without running it. Raises GraphUnavailableError, and whatever it raises.

    stream: a handle; not the default stream.
    """

    def __init__(self, stream: int, enqueue: Callable[[], None]) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._stream = ctypes.c_void_p(stream)
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuStreamBeginCapture_v2", self._stream, ctypes.c_int(_THREAD_LOCAL))
        try:
            enqueue()
        finally:
            ended = self._status("cuStreamEndCapture", self._stream, ctypes.byref(graph))
        if ended:
            raise GraphUnavailableError(f"cuStreamEndCapture: {error_name(self._driver, ended)}")
        try:
            self._call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        finally:
            self._status("cuGraphDestroy", graph)
        self._executable: ctypes.c_void_p | None = executable

    def launch(self) -> None:
        """Queue all of it."""
        self._call("cuGraphLaunch", self._executable, self._stream)

    def close(self) -> None:
        """Forget it. Harmless when repeated."""
        if self._executable is not None:
            self._status("cuGraphExecDestroy", self._executable)
            self._executable = None

    def _status(self, function: str, *arguments: object) -> int:
        try:
            return int(getattr(self._driver, function)(*arguments))
        except AttributeError:
            raise GraphUnavailableError(f"the driver has no {function}") from None

    def _call(self, function: str, *arguments: object) -> None:
        if status := self._status(function, *arguments):
            raise GraphUnavailableError(f"{function}: {error_name(self._driver, status)}")
