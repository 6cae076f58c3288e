"""Runs jobs in a worker process and turns everything that can happen to it into an outcome."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import IO

from edge.messages import Failed, Finished, Job, Message, Progress, Started, Stop

# Fetching and loading a model, or opening a slow camera, may take this long before the first sign of life.
START_TIMEOUT_S = 400.0
# After that the worker reports five times a second while frames flow. It gives up by itself on a disk or an encoder
# that hangs for 60 s, with a better message than ours; longer silence means that native code hangs.
SILENCE_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 90.0
CRASH_TIMEOUT_S = 10.0
SIGNALS = {number.value: number.name for number in signal.Signals}
POLL_S = 0.2


class _WorkerGoneError(Exception):
    """The other end of the connection is closed, in mid-message or between two."""


def _send(connection: Connection, message: Job | Stop) -> None:
    try:
        connection.send(message)
    except OSError as error:
        raise _WorkerGoneError from error


def _receive(connection: Connection) -> Message:
    try:
        message: Message = connection.recv()
    except (EOFError, OSError) as error:
        raise _WorkerGoneError from error
    return message


class WorkerProcess:
    """Owns one worker process, started when first needed and again after a crash. Use as a context manager.

    show_worker_log: let the worker's own stderr (native libraries) through to ours.
    """

    def __init__(self, show_worker_log: bool = False) -> None:
        self._show_worker_log = show_worker_log
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._log: IO[bytes] | None = None
        self._stop_asked_s: float | None = None

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def request_stop(self) -> None:
        """Ask the running job to finish with what it has read. Safe to call from a signal handler; twice kills it."""
        if self._stop_asked_s is not None and self._process is not None:
            self._process.kill()
            return
        self._stop_asked_s = time.monotonic()

    @property
    def stop_requested(self) -> bool:
        """Whether `request_stop` was called."""
        return self._stop_asked_s is not None

    def run(self, job: Job, on_message: Callable[[Message], None]) -> Finished | Failed:
        """Run one job to its end; `on_message` gets everything that the worker says on the way.

        Never raises for what happens in the worker: a crash, a hang or a kill becomes a `Failed`.
        """
        process, connection = self._ensure()
        try:
            return self._listen(job, process, connection, on_message)
        except _WorkerGoneError:
            return self._crashed(job, process)

    def _listen(
        self,
        job: Job,
        process: subprocess.Popen[bytes],
        connection: Connection,
        on_message: Callable[[Message], None],
    ) -> Finished | Failed:
        _send(connection, job)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        stop_sent = False
        while True:
            if self.stop_requested and not stop_sent:
                _send(connection, Stop())
                stop_sent = True
                deadline_s = time.monotonic() + STOP_TIMEOUT_S
            if not connection.poll(POLL_S):
                if time.monotonic() > deadline_s:
                    process.kill()
                    process.wait()
                    self._forget()
                    return Failed(f"{job.source}: processing hangs (no sign of life); it was stopped", 1)
                continue
            message = _receive(connection)
            if isinstance(message, Failed) and message.worker_ends:
                self._end()
            if isinstance(message, Finished | Failed):
                return message
            on_message(message)
            if isinstance(message, Started | Progress) and not stop_sent:
                deadline_s = time.monotonic() + SILENCE_TIMEOUT_S

    def _crashed(self, job: Job, process: subprocess.Popen[bytes]) -> Failed:
        """Say how the worker ended. What it had written stays as a `.part`, every frame of it masked."""
        try:
            code = process.wait(CRASH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        tail = self._log_tail()
        self._forget()
        if code == -signal.SIGKILL:
            how = "was killed (out of memory?)"
        elif code < 0:
            how = f"crashed ({SIGNALS.get(-code, -code)})"
        else:
            how = f"ended unexpectedly (exit code {code})"
        return Failed(f"{job.source}: the process that decodes it {how}{tail}; what is left is a .part file", 1)

    def _log_tail(self) -> str:
        """The last line that the worker printed, when there is one."""
        if self._log is None:
            return ""
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 4096))
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return f": {lines[-1][:200]}" if lines else ""

    def _ensure(self) -> tuple[subprocess.Popen[bytes], Connection]:
        if self._process is not None and self._connection is not None and self._process.poll() is None:
            return self._process, self._connection
        self._forget()
        ours, theirs = socket.socketpair()
        self._log = None if self._show_worker_log else tempfile.TemporaryFile()     # noqa: SIM115
        environment = os.environ | {"OPENCV_IO_MAX_IMAGE_PIXELS": str(1 << 28), "OMP_NUM_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "edge.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log or sys.stderr.fileno(),
                stderr=self._log or sys.stderr.fileno(),
                env=environment,
                start_new_session=True,     # a Ctrl-C in the terminal reaches only us; we then ask it to stop
            )
        self._connection = Connection(ours.detach())
        return self._process, self._connection

    def _end(self) -> None:
        """Close the connection; the worker ends by itself, or is made to."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._forget()

    def _forget(self) -> None:
        for handle in (self._connection, self._log):
            if handle is not None:
                with contextlib.suppress(OSError):
                    handle.close()
        self._process = self._connection = self._log = None
