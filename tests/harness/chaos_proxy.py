"""A TCP proxy on 127.0.0.1 that damages what a server sends, repeatably: for RTSP over TCP and for downloads."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

CHUNK_BYTES = 4096
Kind = Literal["none", "stall", "delay", "corrupt", "drop", "garbage", "rst", "close", "half_close"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one connection once the server has sent `after_bytes`.

    stall: nothing is passed on any more, both ends stay open. delay: every chunk waits `seconds`.
    corrupt: each byte is replaced with probability `rate`. drop: each chunk vanishes with probability `rate`.
    garbage: 1000 random bytes, once. rst: the client gets a reset. close: the client's connection is closed.
    half_close: the client sees the end of the stream, but may go on sending.
    """

    kind: Kind
    after_bytes: int = 0
    rate: float = 0.01
    seconds: float = 1.0


class ChaosProxy:
    """Runs in a thread of its own while the context is open; clients connect to `port`.

    faults: the n-th fault is for the n-th connection; later connections get the last one, so that a client that
        reconnects meets it again; end with Fault("none") to let it succeed.
    connections: how many clients have connected so far.
    """

    def __init__(self, target_port: int, faults: Sequence[Fault] = (), seed: int = 0) -> None:
        self.port = 0
        self.connections = 0
        self._target_port = target_port
        self._faults = tuple(faults) or (Fault("none"),)
        self._seed = seed
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-proxy")

    def __enter__(self) -> ChaosProxy:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _shut(self) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        fault = self._faults[min(number, len(self._faults) - 1)]
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        server_out = None
        try:
            server_in, server_out = await asyncio.open_connection("127.0.0.1", self._target_port)
            upstream = asyncio.create_task(_copy(client_in, server_out))
            try:
                await _damage(server_in, client_out, fault, random.Random(self._seed + number))
                if fault.kind in ("stall", "half_close"):
                    await upstream
            finally:
                upstream.cancel()
        except (OSError, asyncio.CancelledError):
            pass                        # either end went away, or the test is over
        finally:
            self._tasks.discard(task)
            for writer in (client_out, server_out):
                if writer is not None:
                    writer.close()
                    with contextlib.suppress(OSError, asyncio.CancelledError):
                        await writer.wait_closed()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(CHUNK_BYTES):
            sink.write(data)
            await sink.drain()


async def _damage(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, fault: Fault, chance: random.Random
) -> None:
    """Pass on what the server sends until it ends or the fault ends it."""
    passed_bytes, started = 0, False
    while True:
        want = CHUNK_BYTES if started else max(0, min(CHUNK_BYTES, fault.after_bytes - passed_bytes))
        if not want:                    # exactly after_bytes have passed
            started = True
            if fault.kind in ("stall", "rst", "close", "half_close"):
                _end(sink, fault.kind)
                return
            if fault.kind == "garbage":
                sink.write(chance.randbytes(1000))
            continue
        data = await source.read(want)
        if not data:
            return
        passed_bytes += len(data)
        if started and fault.kind == "delay":
            await asyncio.sleep(fault.seconds)
        if started and fault.kind == "drop" and chance.random() < fault.rate:
            continue
        if started and fault.kind == "corrupt":
            data = bytes(chance.randrange(256) if chance.random() < fault.rate else byte for byte in data)
        sink.write(data)
        await sink.drain()


def _end(sink: asyncio.StreamWriter, kind: Kind) -> None:
    if kind == "half_close":
        sink.write_eof()
    elif kind == "rst":
        raw = sink.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sink.transport.abort()
