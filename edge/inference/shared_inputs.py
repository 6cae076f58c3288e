"""Detector inputs in memory that a camera and the inference process share: written by one, read by the other."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from edge.inference.wire import WireError
from edge.types import UInt8

_STEP_BYTES = 1 << 16


class WrittenInput:
    """The camera's side. Its size is sealed: the reader must not fault on pages that were cut off.

    least_bytes: at least so many bytes.
    """

    def __init__(self, least_bytes: int) -> None:
        size = -(-least_bytes // _STEP_BYTES) * _STEP_BYTES
        descriptor = os.memfd_create("edge-input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, size)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            self._memory = mmap.mmap(descriptor, size)      # keeps a descriptor of its own
            self.bytes = size
            self._samples: UInt8 | None = np.frombuffer(self._memory, np.uint8)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor: int | None = descriptor

    def write(self, pixels: UInt8) -> None:
        """Put a picture at the start."""
        assert self._samples is not None
        np.copyto(self._samples[: pixels.size].reshape(pixels.shape), pixels)

    @contextmanager
    def sent(self) -> Iterator[int]:
        """The descriptor to send; closed afterwards."""
        assert self._descriptor is not None
        try:
            yield self._descriptor
        finally:
            os.close(self._descriptor)
            self._descriptor = None

    def close(self) -> None:
        """Give the memory back."""
        self._samples = None
        self._memory.close()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def map_input(descriptor: int, size: int) -> UInt8:
    """The inference process's side: memory of `size` bytes, read-only. It is given back with the last reference.

    Its content may change while it is read, which harms nobody; its size may not. Raises WireError.
    """
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        if not seals & fcntl.F_SEAL_SHRINK:
            raise WireError("memory that could shrink")
        # Huge pages are taken from a pool that can be empty when a page is first read; that would be a fault as well.
        if os.fstatvfs(descriptor).f_bsize != mmap.PAGESIZE:
            raise WireError("memory of huge pages")
        if os.fstat(descriptor).st_size < size:
            raise WireError("memory that is smaller than was said")
        memory = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
    except (OSError, ValueError) as error:
        raise WireError(f"memory that cannot be mapped ({error})") from None
    samples: UInt8 = np.frombuffer(memory, np.uint8)
    return samples
