"""The file in which TensorRT keeps how long kernels took, so that the next build need not time them again."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edge.nvidia.tensorrt_api import ConfigT

# TensorRT 8.6, in each build that is given a cache which it wrote itself.
_REFUSED = re.compile(r"myelinCache\.h::deserialize|timing cache will not be used", re.IGNORECASE)


class TimingCache:
    """One build's use of the file `path`; None: none.

    TensorRT 8.6 writes caches that it then cannot read ("Myelin error from unknown graph"). The file is emptied then,
    and stays empty, so later builds neither try it nor speak of it; the next version of TensorRT has a file of its own.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._refused = self._open = False

    def was_refused_by(self, line: str) -> bool:
        """Whether this line of TensorRT's log says so. It is no error: the build only takes longer."""
        found = _REFUSED.search(line) is not None
        self._refused |= found
        return found

    def open(self, config: ConfigT) -> None:
        """Let the build use the times of earlier ones; a cache of another TensorRT or GPU is begun anew."""
        if self._path is None:
            return
        content = b""
        with contextlib.suppress(OSError):
            content = self._path.read_bytes()
        for attempt in dict.fromkeys((content, b"")):
            cache = config.create_timing_cache(attempt)
            if cache is not None and config.set_timing_cache(cache, ignore_mismatch=False):
                self._open = True
                return

    def keep(self, config: ConfigT) -> None:
        """Write what the build has timed, for the next one. Raises OSError."""
        if self._path is None or not self._open:
            return
        if self._refused:
            self._path.write_bytes(b"")
        elif not (self._path.exists() and self._path.stat().st_size == 0):
            self._write(self._path, config)

    def _write(self, path: Path, config: ConfigT) -> None:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(memoryview(config.get_timing_cache().serialize()))
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink(missing_ok=True)
            raise
