"""What a build needs before it begins: a backend, a directory that is ours alone, models."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from edge.device import Device, this_device
from edge.errors import RetryLater, StorageError, UnavailableError
from edge.nvidia.driver import NoGpu, first_gpu

if TYPE_CHECKING:
    from build_engines.backend import BackendName

LOCK, WORK = ".build.lock", ".build"


def choose_backend(wanted: str) -> tuple[BackendName, str]:
    """The backend to build for, and why, for people.

    Raises UnavailableError when TensorRT is asked for and cannot be used.
    """
    if wanted == "onnxruntime":
        return "onnxruntime", "asked for"
    obstacle = tensorrt_obstacle(this_device())
    if wanted == "tensorrt":
        if obstacle:
            raise UnavailableError(f"TensorRT cannot be used here: {obstacle}", "or build with --backend onnxruntime")
        return "tensorrt", "asked for"
    return ("onnxruntime", obstacle) if obstacle else ("tensorrt", "it and a GPU are there")


def tensorrt_obstacle(device: Device) -> str:
    """Why TensorRT cannot build here; empty when it can."""
    gpu = first_gpu()
    if isinstance(gpu, NoGpu):
        return gpu.why
    if device.unsupported:
        return device.unsupported
    if device.tensorrt is None:
        return "the Python module tensorrt is not there, or cannot be loaded"
    return ""


@contextlib.contextmanager
def build_directory(directory: Path) -> Iterator[Path]:
    """An empty directory to work in, below the engine directory, for one edge-build at a time; removed afterwards.

    Raises RetryLater when another one is at work, StorageError when the disk refuses, ConfigError when others can write
    the engine directory.
    """
    from edge.engines.checks import check_directory

    with contextlib.ExitStack() as stack:
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o755)
            check_directory(directory, "edge-build --int8")
            lock = stack.enter_context((directory / LOCK).open("ab"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            work = directory / WORK
            shutil.rmtree(work, ignore_errors=True)         # of a build that was killed
            work.mkdir(mode=0o700)
        except BlockingIOError:
            raise RetryLater(
                f"{directory}: another edge-build is at work there", "wait for it, or give another --engine-dir"
            ) from None
        except OSError as error:
            where = error.filename or directory
            raise StorageError(f"{where}: {error.strerror or error}", "choose another --engine-dir") from error
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        yield work
