"""The main loop of the inference process: takes cameras in, hands their requests to threads, reports."""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import socket
import time
from collections import Counter, deque

from edge.channel import ChildEnd, Stop
from edge.errors import EdgeError, RetryLater, UnavailableError
from edge.inference.loaded import LoadedNetworks, OpenNetwork
from edge.inference.pool import Counts
from edge.inference.server import ServerSettings
from edge.inference.server_connection import Connection, GoneError
from edge.inference.wire import MAX_SIDE_PX, WireError, runtime_settings
from edge.reports import Event, Fatal, InferenceReport, Level
from edge.settings import DetectSettings

REPORT_S = 1.0
MAX_RUN_S = 10.0            # longer is a hang in native code, which only the end of the process ends
MAX_LOAD_S = 120.0
MAX_CONNECTIONS = 256
MAX_CONNECTIONS_OF_ONE = 32
MAX_NOTES = 20
MAX_EVENTS = 50             # between two reports: whoever misbehaves without end must not crowd them out
_HELLO_S = 10.0             # a connection without a hello is closed after this
_STOP_S = 3.0
_LARGEST_SCALE_PX = 1920    # of those that are chosen by themselves: edge.detect.detector.SCALES


def serve(channel: ChildEnd, open_network: OpenNetwork) -> int:
    """Serve until told to stop; returns the exit code. Raises ChannelClosedError when the supervisor is gone.

    open_network: loads a network, see `edge.inference.local_network.open_network`.
    """
    settings = None
    while settings is None:
        settings = channel.receive(1.0)
        channel.report(InferenceReport())
    if isinstance(settings, Stop):
        return 0
    server = _Server(channel, settings, open_network)
    try:
        return server.run()
    finally:
        server.close()


class _Server:
    def __init__(self, channel: ChildEnd, settings: ServerSettings, open_network: OpenNetwork) -> None:
        self._channel = channel
        self._models = settings.models
        self._listener = socket.socket(fileno=settings.listener_fd)
        self._listener.setblocking(False)
        self._counts = Counts()
        self._notes: deque[str] = deque(maxlen=MAX_NOTES)
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lost: EdgeError | None = None
        self._networks = LoadedNetworks(
            open_network, settings.models_dir, self._counts, self._notes.append, self._wake, self._lose
        )
        self._connections: set[Connection] = set()
        self._report = InferenceReport(state="ready")
        self._reported_s = 0.0
        self._events = 0
        self._stop_at_s: float | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._channel, selectors.EVENT_READ, self._obey)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._awake)

    def run(self) -> int:
        while True:
            for key, _ in self._selector.select(REPORT_S / 4):
                key.data()
            now_s = time.monotonic()
            if now_s - self._reported_s >= REPORT_S or self._lost is not None:
                self._reported_s = now_s
                self._tell(now_s)
                if (fatal := self._failure()) is not None:
                    self._channel.report(fatal)
                    return fatal.exit_code
            if self._stop_at_s is not None and (
                now_s > self._stop_at_s or all(pool.is_idle() for pool in self._networks.pools())
            ):
                return 0

    def close(self) -> None:
        for connection in list(self._connections):
            self._drop(connection)
        self._selector.close()
        self._listener.close()
        if self._failure() is None:
            self._networks.close()

    def _obey(self) -> None:
        while (command := self._channel.receive()) is not None:
            if isinstance(command, Stop) and self._stop_at_s is None:
                self._stop_at_s = time.monotonic() + _STOP_S
                self._report.state = "stopping"
                self._selector.unregister(self._listener)
            elif isinstance(command, ServerSettings):
                self._models = command.models

    def _accept(self) -> None:
        try:
            end, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:        # out of descriptors or memory; cameras wait
            self._event("error", "accept", f"cannot take in a camera ({error.strerror})")
            time.sleep(0.05)
            return
        connection = Connection(end)
        own = sum(each.pid == connection.pid for each in self._connections)
        if len(self._connections) >= MAX_CONNECTIONS or own >= MAX_CONNECTIONS_OF_ONE:
            self._event("warning", "connections", f"{connection.name} has {own} connections of "
                        f"{len(self._connections)}, and gets no more")  # fmt: skip
            connection.close()
            return
        self._connections.add(connection)
        self._selector.register(connection, selectors.EVENT_READ, functools.partial(self._read, connection))

    def _read(self, connection: Connection) -> None:
        try:
            if connection.receive() is not None:
                self._welcome(connection)
        except GoneError:
            self._drop(connection)
        except WireError as error:
            self._event("warning", f"client {connection.pid}", f"{connection.name} {error}; it was disconnected")
            self._drop(connection)

    def _welcome(self, connection: Connection) -> None:
        """Answer a hello, if its network is loaded, or cannot be. Raises GoneError."""
        assert connection.hello is not None
        wanted = connection.hello.settings
        try:
            if not self._may_have(wanted):
                self._obey()        # a new camera may be quicker than the news of it
            if not self._may_have(wanted):
                raise UnavailableError(f"the inference process was not told of the model {wanted.model!r}")
            pool = self._networks.pool(wanted)
        except EdgeError as error:
            self._event("error", f"model {wanted.model}", f"{connection.name} cannot have its model: {error}")
            connection.refuse(error)
            self._drop(connection)
            return
        if pool is not None:
            multiple = pool.network.model.input.stride_multiple
            connection.welcome(pool, self._largest_scale_px(wanted) + multiple)

    def _may_have(self, wanted: DetectSettings) -> bool:
        return self._models is None or wanted in map(runtime_settings, self._models)

    def _largest_scale_px(self, wanted: DetectSettings) -> int:
        if self._models is None:
            return MAX_SIDE_PX
        scales = [scale for each in self._models if runtime_settings(each) == wanted for scale in each.scales]
        return max([_LARGEST_SCALE_PX, *scales])

    def _awake(self) -> None:
        """A network was loaded, or could not be: answer those who wait for it."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        for connection in list(self._connections):
            if connection.hello is not None and connection.pool is None:
                try:
                    self._welcome(connection)
                except GoneError:
                    self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._selector.unregister(connection)
        connection.close()

    def _failure(self) -> Fatal | None:
        """Why this process has to end, if it has to."""
        if self._lost is not None:
            return Fatal(" ".join(str(self._lost).split()), self._lost.exit_code)
        run_s = max((pool.oldest_run_s() for pool in self._networks.pools()), default=0.0)
        if run_s > MAX_RUN_S:
            return Fatal(f"the detector has not come back for {run_s:.0f} s", RetryLater.exit_code)
        load_s = self._networks.longest_load_s()
        if load_s > MAX_LOAD_S:
            return Fatal(f"a model has been loading for {load_s:.0f} s", RetryLater.exit_code)
        return None

    def _tell(self, now_s: float) -> None:
        """Report. Progress is what was answered; where nothing is asked for, to have looked."""
        for connection in list(self._connections):
            if connection.hello is None and now_s - connection.since_s > _HELLO_S:
                self._drop(connection)
        self._events = 0
        self._networks.close_unused({each.pool for each in self._connections}, self._may_have)
        while self._notes:
            self._event("warning", "model", self._notes.popleft())
        report, pools = self._report, self._networks.pools()
        if report.state != "stopping":
            report.state = "loading" if self._networks.longest_load_s() else "ready"
        report.models = [f"{pool.network.model.title} on {pool.network.describe()}" for pool in pools]
        batches: Counter[int] = Counter()
        for pool in pools:
            batches.update(pool.network.batches())
        report.batches = {str(size): runs for size, runs in sorted(batches.items())}
        report.clients = len({each.pid for each in self._connections if each.hello is not None})
        with self._counts.lock:
            answered = self._counts.requests != report.requests
            report.requests, report.failures = self._counts.requests, self._counts.failures
            report.late, report.run_ms, report.wait_ms = self._counts.late, self._counts.run_ms, self._counts.wait_ms
            report.progress += answered or all(pool.is_idle() for pool in pools)
            self._channel.report(report)

    def _event(self, level: Level, key: str, text: str) -> None:
        self._events += 1
        if self._events <= MAX_EVENTS:
            self._channel.report(Event(level, key, " ".join(text.split()), "inference"))

    def _lose(self, error: EdgeError) -> None:
        self._lost = error
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):      # full: it will wake up anyway
            os.write(self._wake_write, b"\0")
