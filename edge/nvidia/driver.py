"""What the CUDA driver says about the first GPU, without a context and without pycuda."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

# cuda.h
_CUDA_SUCCESS = 0
_COMPUTE_CAPABILITY_MAJOR = 75
_COMPUTE_CAPABILITY_MINOR = 76


@dataclass(frozen=True, slots=True)
class Gpu:
    """compute_capability: such as ``8.7``. cuda: the newest CUDA version that the driver serves, such as ``12.2``."""

    name: str
    compute_capability: str
    cuda: str


@dataclass(frozen=True, slots=True)
class NoGpu:
    """why: for people."""

    why: str


def first_gpu() -> Gpu | NoGpu:
    """The GPU that CUDA lists first."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return NoGpu("there is no NVIDIA driver (libcuda.so.1)")
    device, version, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(256)
    calls = (
        ("cuInit", (ctypes.c_uint(0),)),
        ("cuDriverGetVersion", (ctypes.byref(version),)),
        ("cuDeviceGet", (ctypes.byref(device), 0)),
        ("cuDeviceGetName", (name, len(name), device)),
        ("cuDeviceGetAttribute", (ctypes.byref(major), _COMPUTE_CAPABILITY_MAJOR, device)),
        ("cuDeviceGetAttribute", (ctypes.byref(minor), _COMPUTE_CAPABILITY_MINOR, device)),
    )
    for function, arguments in calls:
        try:
            status = int(getattr(library, function)(*arguments))
        except AttributeError:
            return NoGpu(f"libcuda.so.1 has no {function}; it is not NVIDIA's")
        if status != _CUDA_SUCCESS:
            return NoGpu(f"{function} failed with {error_name(library, status)}")
    cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
    return Gpu(name.value.decode(errors="replace"), f"{major.value}.{minor.value}", cuda)


def error_name(library: ctypes.CDLL, status: int) -> str:
    """Such as ``CUDA_ERROR_NO_DEVICE``. library: libcuda."""
    text = ctypes.c_char_p()
    try:
        library.cuGetErrorName(status, ctypes.byref(text))
    except AttributeError:
        return f"status {status}"
    return text.value.decode() if text.value else f"status {status}"
