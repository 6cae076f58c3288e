"""The face network of a camera process: it runs in the inference process."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from edge.detect.candidates import Candidates
from edge.errors import DetectorError, EdgeError
from edge.inference.client_connection import ClientConnection, LostError
from edge.inference.wire import Hello, Welcome, WireError
from edge.models.description import ModelDescription
from edge.settings import DetectSettings
from edge.types import UInt8

RETRY_S = 0.5
# How long a picture waits for the answer to a hello that was just sent; a process that is up answers in less.
_HELLO_S = 0.002


class RemoteNetwork:
    """Finds candidates in the inference process: see `edge.detect.network.Network`. Thread-safe.

    Each call that runs has a connection of its own; as many are kept as were needed at once. It has no thread: it looks
    for the process, at most every `RETRY_S`, whenever it is called.

    socket_path: where the process listens. settings: which model. name: of the camera. deadline_s: `find` takes no
    longer, whatever happens there.
    """

    def __init__(self, socket_path: Path, settings: DetectSettings, name: str, deadline_s: float) -> None:
        self._path, self._deadline_s = socket_path, deadline_s
        self._hello = Hello(name, settings).pack()
        self._lock = threading.Lock()
        self._idle: list[ClientConnection] = []
        self._waiting: ClientConnection | None = None        # has said hello
        self._welcome: Welcome | None = None
        self._ready = False
        self._closed = False
        self._generation = 0
        self._next_attempt_s = 0.0
        self._largest_bytes = 0
        self._trouble = "the inference process has not answered yet"

    @property
    def model(self) -> ModelDescription:
        """Of the last welcome; the same object until the model is another. Raises DetectorError before the first."""
        return self.welcome.model

    @property
    def reason(self) -> str:
        """Why this model. Raises DetectorError before the first welcome."""
        return self.welcome.reason

    @property
    def welcome(self) -> Welcome:
        """What the inference process said about itself last. Raises DetectorError before the first time."""
        if self._welcome is None:
            raise DetectorError(self._trouble)
        return self._welcome

    @property
    def trouble(self) -> str:
        """Why it is not ready, for people; empty when it is."""
        return "" if self._ready else self._trouble

    @property
    def ready(self) -> bool:
        """Whether the inference process is there with the model. Looks for it when it is not; does not wait."""
        with self._lock:
            if self._ready and self._idle and self._idle[-1].is_lost():
                self._forget("the inference process is gone")
            if not self._ready and not self._closed:
                with contextlib.suppress(EdgeError):
                    self._idle.append(self._look(0.0))
            return self._ready

    def connect(self, timeout_s: float) -> bool:
        """Wait for the inference process and its model; whether it is there now.

        Raises what loading the model raised there: ConfigError, UnavailableError, UsageError or InputError.
        """
        end_s = time.monotonic() + timeout_s
        while True:
            left_s = end_s - time.monotonic()
            with self._lock:
                if self._ready or self._closed:
                    return self._ready
                try:
                    self._idle.append(self._look(min(0.05, max(0.0, left_s))))
                    return True
                except DetectorError:
                    pass
            if left_s <= 0:
                return False
            if self._waiting is None:
                time.sleep(min(0.05, left_s))

    def find(self, pixels: UInt8, min_score: float) -> Candidates:
        """See `Network.find`. Raises DetectorError at once while the process is not there."""
        deadline_ns = time.monotonic_ns() + int(self._deadline_s * 1e9)
        self._largest_bytes = max(self._largest_bytes, pixels.nbytes)
        connection = self._take(deadline_ns)
        landmarks = bool(self.model.landmarks)
        try:
            found = connection.ask(pixels, min_score, deadline_ns, self._largest_bytes, landmarks)
        except EdgeError:
            self._give_back(connection)
            raise
        except (LostError, WireError) as error:
            self._drop(connection, str(error))
            raise DetectorError(str(error)) from None
        except BaseException:
            self._drop(connection, "a request was interrupted")
            raise
        self._give_back(connection)
        return found

    def describe(self) -> str:
        """Library, version and device, for people."""
        return self.welcome.runtime

    def close(self) -> None:
        """Let go of the inference process. Harmless when repeated."""
        with self._lock:
            self._closed = True
            self._forget("closed")
            if self._waiting is not None:
                self._waiting.close()
                self._waiting = None

    def _take(self, deadline_ns: int) -> ClientConnection:
        with self._lock:
            if self._closed:
                raise DetectorError("the network is closed")
            if not self._ready:
                return self._look(_HELLO_S)
            if self._idle:
                return self._idle.pop()
            generation = self._generation
        connection: ClientConnection | None = None
        try:
            connection = ClientConnection(self._path, self._hello, generation)
            welcome = connection.welcome((deadline_ns - time.monotonic_ns()) / 1e9)
            if welcome is None:
                raise LostError("no answer from the inference process in time")
        except (LostError, WireError) as error:
            with self._lock:
                if generation == self._generation:
                    self._forget(str(error))
            if connection is not None:
                connection.close()
            raise DetectorError(str(error)) from None
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        with self._lock:
            self._learn(welcome)
        return connection

    def _look(self, wait_s: float) -> ClientConnection:
        """One step towards being ready, under the lock. Raises DetectorError when it is not done, and what was
        answered."""
        if self._waiting is None:
            now_s = time.monotonic()
            if now_s < self._next_attempt_s:
                raise DetectorError(self._trouble)
            self._next_attempt_s = now_s + RETRY_S
        try:
            if self._waiting is None:
                self._waiting = ClientConnection(self._path, self._hello, self._generation)
            welcome = self._waiting.welcome(wait_s)
        except (LostError, WireError, EdgeError) as error:
            if self._waiting is not None:
                self._waiting.close()
                self._waiting = None
            self._trouble = str(error)
            raise (error if isinstance(error, EdgeError) else DetectorError(str(error))) from None
        if welcome is None:
            raise DetectorError(self._trouble)
        connection, self._waiting = self._waiting, None
        connection.generation = self._generation
        self._learn(welcome)
        self._ready = True
        return connection

    def _learn(self, welcome: Welcome) -> None:
        if self._welcome is None or welcome != self._welcome:
            model = welcome.model if self._welcome is None or welcome.model != self._welcome.model else self.model
            self._welcome = Welcome(
                model, welcome.reason, welcome.runtime, welcome.model_sha256, welcome.engine_sha256
            )

    def _give_back(self, connection: ClientConnection) -> None:
        with self._lock:
            if not self._closed and connection.generation == self._generation:
                self._idle.append(connection)
                return
        connection.close()

    def _drop(self, connection: ClientConnection, why: str) -> None:
        connection.close()
        with self._lock:
            if connection.generation == self._generation:
                self._forget(why)

    def _forget(self, why: str) -> None:
        """Not ready from now on; connections that are in use are closed when they come back."""
        self._ready, self._trouble = False, why
        self._generation += 1
        for connection in self._idle:
            connection.close()
        self._idle.clear()
