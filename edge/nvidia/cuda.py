"""CUDA through pycuda: the one module that imports it.

pycuda keeps a stack of contexts per thread. A thread that ends with a context on its stack aborts the process, and
what a thread made can only be freed there. So a `Cuda` is made, used and closed in one thread (see
`edge.inference.tensorrt`), with the primary context, which libraries in the same process share.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from types import ModuleType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from edge.errors import UnavailableError

_NON_BLOCKING = 1       # CU_STREAM_NON_BLOCKING: does not wait for the legacy default stream


def load_pycuda() -> ModuleType:
    """pycuda's driver module. Raises UnavailableError when it is not installed or does not load."""
    try:
        import pycuda.driver
    except (ImportError, OSError) as error:
        raise UnavailableError(
            f"pycuda cannot be loaded ({error})", "install it: pip install 'jetson-edge-toolkit[jetson]'"
        ) from error
    return cast(ModuleType, pycuda.driver)


class Buffer:
    """Pinned host memory and its twin on the GPU; on an integrated GPU both are the same memory.

    host: array of the largest shape, batch first. address: of the first byte, for the GPU.
    """

    def __init__(self, driver: Any, stream: Any, shape: tuple[int, ...], dtype: npt.DTypeLike, mapped: bool) -> None:
        self._driver, self._stream = driver, stream
        flags = driver.host_alloc_flags.DEVICEMAP if mapped else 0
        self.host: npt.NDArray[Any] = driver.pagelocked_empty(shape, dtype, mem_flags=flags)
        self._pinned: Any = self.host.base
        self._device: Any = None if mapped else driver.mem_alloc(max(1, self.host.nbytes))
        address: Any = self._pinned.get_device_pointer() if mapped else self._device
        self.address = int(address)

    def upload(self, count: int) -> None:
        """Queue the copy of the first `count` items to the GPU."""
        if self._device is not None:
            self._driver.memcpy_htod_async(self.address, self.host[:count], self._stream)

    def download(self, count: int) -> None:
        """Queue the copy of the first `count` items back."""
        if self._device is not None:
            self._driver.memcpy_dtoh_async(self.host[:count], self.address, self._stream)

    def free(self) -> None:
        """Give the memory back. No view of `host` may be used afterwards."""
        if self._device is not None:
            self._device.free()
        self._pinned.free()


class Cuda:
    """The primary context of the first GPU, current in the thread that makes this, and one stream.

    name, compute_capability, integrated: of the GPU; the memory of an integrated one is the processor's.
    Raises UnavailableError when there is no GPU or no pycuda.
    """

    def __init__(self) -> None:
        self._driver: Any = load_pycuda()
        self._owned: list[Any] = []
        self._closed = True
        flags = self._driver.event_flags
        try:
            self._driver.init()
            device = self._driver.Device(0)
            self.name = str(device.name())
            self.compute_capability = "{}.{}".format(*device.compute_capability())
            self.integrated = bool(device.get_attribute(self._driver.device_attribute.INTEGRATED))
            self._context: Any = device.retain_primary_context()
            self._context.push()
            self._closed = False
            self._stream: Any = self._driver.Stream(_NON_BLOCKING)
            # Waiting in the kernel, not in a loop: the processor has other frames to look after.
            self._done: Any = self._driver.Event(flags.BLOCKING_SYNC | flags.DISABLE_TIMING)
        except self._driver.Error as error:
            self.close()
            remedy = "check the driver: nvidia-smi, or tegrastats on a Jetson"
            raise UnavailableError(f"CUDA does not start ({error})", remedy) from error

    @property
    def stream(self) -> int:
        """Handle of the stream, for TensorRT."""
        return int(self._stream.handle)

    def buffer(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Buffer:
        """Memory for one tensor. Raises UnavailableError when there is not enough."""
        with self._explained(int(np.prod(shape)) * np.dtype(dtype).itemsize):
            made = Buffer(self._driver, self._stream, shape, dtype, self.integrated)
        self._owned.append(made)
        return made

    def scratch(self, size_bytes: int) -> int:
        """Address of memory that only the GPU uses. Raises UnavailableError when there is not enough."""
        with self._explained(size_bytes):
            made = self._driver.mem_alloc(max(1, size_bytes))
        self._owned.append(made)
        return int(made)

    def wait(self) -> None:
        """Wait until the stream has done all that was queued. Raises what `errors` names."""
        self._done.record(self._stream)
        self._done.synchronize()

    @contextlib.contextmanager
    def timer(self) -> Iterator[list[float]]:
        """Appends the milliseconds that the GPU spent on what is queued within the block, once that is done."""
        start, end = self._driver.Event(), self._driver.Event()
        taken: list[float] = []
        start.record(self._stream)
        yield taken
        end.record(self._stream)
        end.synchronize()
        taken.append(float(start.time_till(end)))

    @property
    def errors(self) -> type[Exception]:
        """Base of all exceptions that pycuda raises."""
        return cast("type[Exception]", self._driver.Error)

    def is_lost(self) -> bool:
        """Whether the context is broken for good: then every call fails, also one that waits for nothing."""
        try:
            self._driver.Context.synchronize()
        except self._driver.Error:
            return True
        return False

    def close(self) -> None:
        """Free everything, in the thread that made it. Harmless when repeated.

        Raises what `errors` names when the context turns out to be broken; it is then abandoned.
        """
        if self._closed:
            return
        self._closed = True
        try:
            for owned in reversed(self._owned):
                owned.free()
            self._owned.clear()
            self._done = self._stream = None
            self._driver.Context.pop()
            self._context.detach()
        except self._driver.Error:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Leave everything to the end of the process: freeing in a broken context aborts it.

        The thread must not end afterwards, because its stack of contexts cannot be emptied any more.
        """
        self._closed = True
        immortal(self)

    @contextlib.contextmanager
    def _explained(self, size_bytes: int) -> Iterator[None]:
        try:
            yield
        except self._driver.Error as error:
            raise UnavailableError(
                f"the GPU gives no {size_bytes >> 20} MiB ({error})", "end other programs that use it"
            ) from error


def immortal(thing: object) -> None:
    """Never destroy `thing`, not even when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
