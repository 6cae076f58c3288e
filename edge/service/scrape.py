"""A web server for one page and one kind of client, in one thread: it waits for nobody.

Whatever clients do, slow, endless or many at once, there are at most `MAX_CLIENTS` connections, each for `DEADLINE_S`.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

HOST = "127.0.0.1"
MAX_CLIENTS = 16
BACKLOG = 128       # of the kernel's queue; a full one costs each client a second
MAX_REQUEST_BYTES = 8192
DEADLINE_S = 5.0
BIND_INTERVAL_S = 10.0
PLAIN = "text/plain; charset=utf-8"


@dataclass(slots=True)
class _Client:
    socket: socket.socket
    deadline_s: float
    received: bytearray = field(default_factory=bytearray)
    answer: memoryview | None = None


class ScrapeServer:
    """Answers ``GET /metrics`` on the loopback address. A port that is taken is tried again, for ever.

    page: makes the body; called in the server's thread. port: 0 for any free one. `problem`: why it does not listen,
    for people; empty when it does.
    """

    def __init__(self, port: int, page: Callable[[], bytes], content_type: str) -> None:
        self.port, self.problem = port, ""
        self._page, self._content_type = page, content_type
        self._selector = selectors.DefaultSelector()
        self._listener: socket.socket | None = None
        self._clients: dict[int, _Client] = {}
        self._waker, self._woken = socket.socketpair()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin to listen. Raises nothing: see `problem`."""
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._listen()
        self._thread.start()

    def stop(self) -> None:
        """Close everything; connections under way are cut."""
        self._stopping = True
        if self._thread.ident is not None:
            self._waker.send(b"x")
            self._thread.join()
        for client in list(self._clients.values()):
            self._drop(client)
        if self._listener is not None:
            self._listener.close()
        self._selector.close()
        self._waker.close()
        self._woken.close()

    def _listen(self) -> None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, self.port))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            self.problem = f"metrics: cannot listen on {HOST}:{self.port}: {error.strerror}"
            return
        listener.setblocking(False)
        self.port, self.problem = listener.getsockname()[1], ""
        self._listener = listener
        self._selector.register(listener, selectors.EVENT_READ)

    def _run(self) -> None:
        tried_s = time.monotonic()
        while not self._stopping:
            ready = self._selector.select(self._timeout_s())
            now_s = time.monotonic()
            for key, _ in ready:
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, _Client) and key.fd in self._clients:
                    self._serve(key.data)
            for client in [each for each in self._clients.values() if each.deadline_s < now_s]:
                self._drop(client)
            if self._listener is None and now_s - tried_s > BIND_INTERVAL_S:
                tried_s = now_s
                self._listen()

    def _timeout_s(self) -> float | None:
        if self._clients:
            return max(0.0, min(each.deadline_s for each in self._clients.values()) - time.monotonic()) + 0.01
        return None if self._listener is not None else BIND_INTERVAL_S

    def _accept(self) -> None:
        assert self._listener is not None
        for _ in range(BACKLOG):            # all that wait, before a page is made for one of them
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:                 # out of descriptors, for one: clients wait in the kernel's queue
                time.sleep(0.1)
                return
            if len(self._clients) == MAX_CLIENTS:
                self._drop(min(self._clients.values(), key=lambda each: each.deadline_s))
            connection.setblocking(False)
            client = _Client(connection, time.monotonic() + DEADLINE_S)
            self._clients[connection.fileno()] = client
            self._selector.register(connection, selectors.EVENT_READ, client)

    def _serve(self, client: _Client) -> None:
        try:
            if client.answer is None:
                self._receive(client)
            if client.answer is not None:
                client.answer = client.answer[client.socket.send(client.answer) :]
                if not client.answer:
                    client.socket.shutdown(socket.SHUT_WR)
                    self._drop(client)
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)

    def _receive(self, client: _Client) -> None:
        packet = client.socket.recv(MAX_REQUEST_BYTES)
        client.received += packet
        complete = b"\r\n\r\n" in client.received or b"\n\n" in client.received
        if not packet:
            self._drop(client)
        elif complete or len(client.received) >= MAX_REQUEST_BYTES:
            client.answer = memoryview(self._answer(bytes(client.received), complete))
            self._selector.modify(client.socket, selectors.EVENT_WRITE, client)

    def _answer(self, request: bytes, complete: bool) -> bytes:
        words = request.split(b"\n", 1)[0].split()
        if not complete or len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response("400 Bad Request")
        if words[0] != b"GET":
            return _response("405 Method Not Allowed", extra="Allow: GET\r\n")
        if words[1].split(b"?")[0] not in (b"/metrics", b"/"):
            return _response("404 Not Found")
        try:
            return _response("200 OK", self._page(), self._content_type)
        except Exception as error:          # a defect in the page must not end the server
            return _response("500 Internal Server Error", f"{type(error).__name__}: {error}\n".encode())

    def _drop(self, client: _Client) -> None:
        if self._clients.pop(client.socket.fileno(), None) is not None:
            self._selector.unregister(client.socket)
            client.socket.close()


def _response(status: str, body: bytes | None = None, kind: str = PLAIN, extra: str = "") -> bytes:
    body = f"{status[4:]}\n".encode() if body is None else body
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{extra}"
    return f"{head}Connection: close\r\n\r\n".encode() + body
