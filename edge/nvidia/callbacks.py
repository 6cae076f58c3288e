"""What TensorRT calls back: its log, its progress, its times per layer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

KEPT_LOG_LINES = 400


class ProgressSink(Protocol):
    """Told how far a build is. Returns False to stop it."""

    def __call__(self, phase: str, step: int, steps: int, /) -> bool: ...


class Log:
    """What TensorRT said last. Thread-safe.

    TensorRT keeps the first logger that it is given for the whole process, so there is one.
    """

    def __init__(self, on_line: Callable[[str, str], None] | None = None) -> None:
        self._lines: deque[tuple[str, str]] = deque(maxlen=KEPT_LOG_LINES)
        self._lock = threading.Lock()
        self.on_line = on_line

    def add(self, severity: str, text: str) -> None:
        """severity: ``internal_error``, ``error``, ``warning`` or ``info``."""
        with self._lock:
            self._lines.append((severity, text))
        if self.on_line is not None:
            self.on_line(severity, text)

    def clear(self) -> None:
        """Forget what was said so far."""
        with self._lock:
            self._lines.clear()

    def last_errors(self, count: int = 3) -> str:
        """The last errors on one line, oldest first; the last warnings where there are none."""
        with self._lock:
            lines = list(self._lines)
        errors = [text for severity, text in lines if severity.endswith("error")]
        chosen = errors or [text for severity, text in lines if severity == "warning"]
        return " | ".join(text.strip() for text in chosen[-count:])

    def tail(self, count: int = 20) -> str:
        """The last lines of any severity."""
        with self._lock:
            lines = list(self._lines)
        return "\n".join(f"{severity}: {text.strip()}" for severity, text in lines[-count:])


def make_logger(module: Any, log: Log) -> Any:
    """TensorRT's logger that fills `log`, but for chatter. module: the library."""

    class Logger(module.ILogger):   # type: ignore[misc]
        def __init__(self) -> None:
            module.ILogger.__init__(self)

        def log(self, severity: Any, msg: str) -> None:
            if severity != module.ILogger.Severity.VERBOSE:
                log.add(severity.name.lower(), msg)

    return Logger()


def make_monitor(module: Any, sink: ProgressSink) -> Any:
    """TensorRT's progress monitor that tells `sink`."""
    steps: dict[str, int] = {}

    class Monitor(module.IProgressMonitor):     # type: ignore[misc]
        def __init__(self) -> None:
            module.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            steps[phase_name] = num_steps

        def step_complete(self, phase_name: str, step: int) -> bool:
            return sink(phase_name, step, steps.get(phase_name, 0))

        def phase_finish(self, phase_name: str) -> None:
            steps.pop(phase_name, None)

    return Monitor()


def make_profiler(module: Any, on_layer: Callable[[str, float], None]) -> Any:
    """TensorRT's profiler that calls ``on_layer(name, ms)``."""

    class Profiler(module.IProfiler):   # type: ignore[misc]
        def __init__(self) -> None:
            module.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            on_layer(layer_name, ms)

    return Profiler()
