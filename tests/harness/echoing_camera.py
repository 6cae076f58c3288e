"""An RTSP camera that repeats the password that it is given: in headers, reasons, addresses and descriptions."""

from __future__ import annotations

import base64
import re
import socketserver
import threading
from typing import Literal

Echo = Literal["reason", "codec", "address"]


class EchoingCamera:
    """The camera as a context manager, on 127.0.0.1. where: in which part of its answer to DESCRIBE."""

    def __init__(self, where: Echo) -> None:
        self._server = _Server(("127.0.0.1", 0), _Connection)
        self._server.where = where
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> EchoingCamera:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def url(self) -> str:
        """Its address."""
        return f"rtsp://127.0.0.1:{self._server.server_address[1]}/"

    @property
    def heard(self) -> str:
        """The password, once somebody told it."""
        return self._server.heard


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    where: Echo = "reason"
    heard = ""


class _Connection(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        head = []
        for line in self.rfile:
            head.append(line.decode().strip())
            if not head[-1]:
                self._answer("\n".join(head))
                head = []

    def _answer(self, head: str) -> None:
        number = re.findall(r"^CSeq: *(\d+)$", head, re.MULTILINE)[0]
        if proof := re.findall(r"^Authorization: Basic (\S+)$", head, re.MULTILINE):
            self.server.heard = base64.b64decode(proof[0]).decode().partition(":")[2]
        heard, status, more, body = self.server.heard, "200 OK", [], ""
        if head.startswith("OPTIONS"):
            more = ["Public: OPTIONS, DESCRIBE, SETUP, PLAY"]
        elif not proof:
            status, more = "401 Unauthorized", ['WWW-Authenticate: Basic realm="camera"']
        elif self.server.where == "reason":
            status = f"500 {heard}"
        elif self.server.where == "address":
            status, more = "302 Moved", [f"Location: rtsp://127.0.0.1:1/{heard}"]
        else:
            more = ["Content-Type: application/sdp"]
            body = (f"v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns={heard}\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\n"
                    f"a=rtpmap:96 {heard}/90000\r\na=control:{heard}\r\n")  # fmt: skip
        lines = [f"RTSP/1.0 {status}", f"CSeq: {number}", f"Server: {heard}", *more]
        lines += [f"Content-Length: {len(body.encode())}"] if body else []
        self.wfile.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
