"""A web server on this machine that serves one file well, badly or not at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving(content: bytes, behaviour: str) -> Iterator[str]:
    """Address of the file. behaviour: ok, truncated, wrong, longer, missing, stall, reset, trickle."""
    release = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if behaviour == "missing":
                self.send_error(404)
                return
            body = {"wrong": bytes(len(content)), "longer": content + b"x"}.get(behaviour, content)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if behaviour in ("ok", "wrong", "longer"):
                self.wfile.write(body)
                return
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            if behaviour == "stall":
                release.wait(20)
            elif behaviour == "trickle":
                for place in range(len(body) // 2, len(body)):
                    if release.wait(0.05):
                        return
                    self.wfile.write(body[place : place + 1])
                    self.wfile.flush()
            elif behaviour == "reset":
                self.connection.shutdown(2)

        def log_message(self, *arguments: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(OSError):         # the client has given up, as it should
                super().handle()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = False
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/model.onnx"
        finally:
            release.set()
            server.shutdown()
            thread.join()
