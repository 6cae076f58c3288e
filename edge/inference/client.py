"""The face network of a camera process: it runs in the inference process."""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import threading
import time
from pathlib import Path

from edge.detect.candidates import Candidates
from edge.errors import DetectorError, EdgeError
from edge.inference.shared_inputs import WrittenInput
from edge.inference.wire import MAX_ANSWER_BYTES, MAX_TEXT_BYTES, Hello, Request, Welcome, WireError, parse_answer
from edge.models.description import ModelDescription
from edge.settings import DetectSettings
from edge.types import UInt8

RETRY_S = 0.5
# How long a picture waits for the answer to a hello that was just sent; a process that is up answers in less.
_HELLO_S = 0.002
# The inference process is told to give up a little earlier than the camera does, so that its answer still counts.
_MARGIN = 0.05


class _LostError(Exception):
    """The other side is gone, or gave no answer in time, or said something it may not say."""


class _Connection:
    """A socket and the memory for one picture: one request at a time."""

    def __init__(self, path: Path, hello: bytes, generation: int) -> None:
        self.generation = generation
        self._numbers = itertools.count(1)
        self._input: WrittenInput | None = None
        self._buffer = memoryview(bytearray(max(MAX_ANSWER_BYTES, MAX_TEXT_BYTES)))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        try:
            self._socket.connect(str(path))     # at once, also when nobody takes it yet
            self._socket.send(hello)
        except OSError as error:
            self._socket.close()
            raise _LostError(f"{path}: {error.strerror}") from None

    def welcome(self, timeout_s: float) -> Welcome | None:
        """The answer to the hello; None when it has not come. Raises _LostError, and the error that was answered."""
        packet = self._receive(timeout_s)
        return None if packet is None else Welcome.parse(bytes(packet))

    def ask(self, pixels: UInt8, min_score: float, deadline_ns: int, least_bytes: int, landmarks: bool) -> Candidates:
        """See `RemoteNetwork.find`. least_bytes: size of the memory, when it has to be made.

        Raises WireError and what `parse_answer` raises, _LostError when no answer came in time.
        """
        now_ns = time.monotonic_ns()
        server_deadline_ns = deadline_ns - int((deadline_ns - now_ns) * _MARGIN)
        new = self._input is None or pixels.nbytes > self._input.bytes
        if self._input is None or new:
            if self._input is not None:
                self._input.close()
            self._input = WrittenInput(max(pixels.nbytes, least_bytes))
        self._input.write(pixels)
        height_px, width_px = pixels.shape[1:3]
        number = next(self._numbers) & 0xFFFFFFFF
        request = Request(
            number, height_px, width_px, min_score, server_deadline_ns, self._input.bytes if new else 0
        ).pack()
        try:
            if new:
                with self._input.sent() as descriptor:
                    socket.send_fds(self._socket, [request], [descriptor])
            else:
                self._socket.send(request)
        except OSError as error:
            raise _LostError(f"the inference process is gone ({error.strerror})") from None
        packet = self._receive((deadline_ns - time.monotonic_ns()) / 1e9)
        if packet is None:
            raise _LostError("no answer from the inference process in time")
        return parse_answer(packet, number, landmarks)

    def is_lost(self) -> bool:
        """Whether the other side is gone; for a connection without a request under way, which must be silent."""
        return bool(self._poll(0))

    def close(self) -> None:
        """Let go; a request under way is given up by the other side, too."""
        self._socket.close()
        if self._input is not None:
            self._input.close()
            self._input = None

    def _receive(self, timeout_s: float) -> memoryview | None:
        if not self._poll(timeout_s):
            return None
        try:
            size = self._socket.recv_into(self._buffer)
        except OSError as error:
            raise _LostError(f"the inference process is gone ({error.strerror})") from None
        if not size:
            raise _LostError("the inference process is gone")
        return self._buffer[:size]

    def _poll(self, timeout_s: float) -> list[tuple[int, int]]:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return poll.poll(max(0.0, 1000 * timeout_s))


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
        self._idle: list[_Connection] = []
        self._waiting: _Connection | None = None        # has said hello
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
        except (_LostError, WireError) as error:
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

    def _take(self, deadline_ns: int) -> _Connection:
        with self._lock:
            if self._closed:
                raise DetectorError("the network is closed")
            if not self._ready:
                return self._look(_HELLO_S)
            if self._idle:
                return self._idle.pop()
            generation = self._generation
        connection: _Connection | None = None
        try:
            connection = _Connection(self._path, self._hello, generation)
            welcome = connection.welcome((deadline_ns - time.monotonic_ns()) / 1e9)
            if welcome is None:
                raise _LostError("no answer from the inference process in time")
        except (_LostError, WireError) as error:
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

    def _look(self, wait_s: float) -> _Connection:
        """One step towards being ready, under the lock. Raises DetectorError when it is not done, and what was
        answered."""
        if self._waiting is None:
            now_s = time.monotonic()
            if now_s < self._next_attempt_s:
                raise DetectorError(self._trouble)
            self._next_attempt_s = now_s + RETRY_S
        try:
            if self._waiting is None:
                self._waiting = _Connection(self._path, self._hello, self._generation)
            welcome = self._waiting.welcome(wait_s)
        except (_LostError, WireError, EdgeError) as error:
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

    def _give_back(self, connection: _Connection) -> None:
        with self._lock:
            if not self._closed and connection.generation == self._generation:
                self._idle.append(connection)
                return
        connection.close()

    def _drop(self, connection: _Connection, why: str) -> None:
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
