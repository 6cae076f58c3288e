"""Runs the inference process as the supervisor does, and restarts it behind the same socket."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from edge.channel import ChannelClosedError, ParentEnd, Stop
from edge.inference.server import ServerSettings
from edge.reports import Event, Fatal, InferenceReport
from edge.settings import DetectSettings

WAIT_S = 20.0


class InferenceServer:
    """A listening socket, and a process that serves it, with all that it said.

    models: what cameras may ask for. module: what runs. environment: added to that of the process.
    """

    def __init__(
        self,
        directory: Path,
        models: tuple[DetectSettings, ...] | None = None,
        module: str = "edge.inference.server",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.path = directory / "inference.sock"
        self._models, self._module = models, module
        self._environment = {**os.environ, **(environment or {})}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self.events: list[Event] = []
        self.fatal: Fatal | None = None
        self.report = InferenceReport()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start a process."""
        self._channel, end = ParentEnd.pair()
        listener = self._listener.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module, str(end.fileno())],
            pass_fds=[end.fileno(), listener],
            stdin=subprocess.DEVNULL,
            env=self._environment,
        )
        end.close()
        self.tell(self._models)

    def tell(self, models: tuple[DetectSettings, ...] | None) -> None:
        """Say what cameras may ask for."""
        self._channel.send(ServerSettings(self._listener.fileno(), None, models))

    def listen(self, timeout_s: float = 0.0) -> bool:
        """Take in what it says; False when it has ended."""
        select.select([self._channel], [], [], timeout_s)
        try:
            for said in self._channel.receive():
                if isinstance(said, InferenceReport):
                    self.report = said
                elif isinstance(said, Event):
                    self.events.append(said)
                elif isinstance(said, Fatal):
                    self.fatal = said
        except ChannelClosedError:
            return False
        return True

    def until(self, condition: Callable[[], object]) -> None:
        """Take in what it says until `condition` holds."""
        end_s = time.monotonic() + WAIT_S
        while not condition():
            self.listen(0.05)
            assert time.monotonic() < end_s, f"{self.report} {self.events}"

    def wait(self) -> int:
        """Until it ends by itself; its exit code."""
        assert self._process is not None
        end_s = time.monotonic() + WAIT_S
        while self.listen(0.1):
            assert time.monotonic() < end_s, "it has not ended"
        code = self._process.wait(WAIT_S)
        self._channel.close()
        self._process = None
        return code

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._channel.close()
            self._process = None

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        with contextlib.suppress(ChannelClosedError):
            self._channel.send(Stop())
        return self.wait()

    def __enter__(self) -> InferenceServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._listener.close()
