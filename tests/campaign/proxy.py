"""A TCP proxy whose faults are switched while connections are open; for RTSP over TCP."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from typing import Literal

CHUNK_BYTES = 512
Mode = Literal["none", "corrupt", "drop", "stall"]
Strike = Literal["garbage", "reset", "close"]


class SwitchedProxy:
    """Runs in a thread of its own while the context is open; clients connect to `port`.

    hits: chunks that were damaged or lost so far, and connections that were struck.
    """

    def __init__(self, target_port: int, seed: int) -> None:
        self.port, self.hits = 0, 0
        self._target_port = target_port
        self._chance = random.Random(seed)
        self._mode: Mode = "none"
        self._rate = 0.0
        self._clients: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="switched-proxy")

    def __enter__(self) -> SwitchedProxy:
        self._thread.start()
        self._server = self._in_loop(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._in_loop(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def set(self, mode: Mode, rate: float = 0.0) -> None:
        """From now on damage this share of what passes, in all connections."""
        self._mode, self._rate = mode, rate

    def strike(self, how: Strike) -> None:
        """Do this once to every connection that is open now."""
        self._in_loop(self._struck(how))

    def _in_loop(self, work):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

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

    async def _struck(self, how: Strike) -> None:
        for writer in list(self._clients):
            self.hits += 1
            if how == "garbage":
                writer.write(self._chance.randbytes(1000))
                continue
            if how == "reset":
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def _accept(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._clients.add(client_out)
        server_out = None
        try:
            server_in, server_out = await asyncio.open_connection("127.0.0.1", self._target_port)
            ways = [asyncio.create_task(self._pass(client_in, server_out, damaged=False)),
                    asyncio.create_task(self._pass(server_in, client_out, damaged=True))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._clients.discard(client_out)
            for writer in (client_out, server_out):
                if writer is not None:
                    writer.close()
                    with contextlib.suppress(OSError, asyncio.CancelledError):
                        await writer.wait_closed()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, damaged: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                if damaged and self._mode != "none":
                    data = await self._damage(data)
                sink.write(data)
                await sink.drain()

    async def _damage(self, data: bytes) -> bytes:
        if self._mode == "stall":
            self.hits += 1
            while self._mode == "stall":
                await asyncio.sleep(0.05)
            return data
        if self._chance.random() >= self._rate:
            return data
        self.hits += 1
        if self._mode == "drop":
            return b""
        spoilt = bytearray(data)
        for _ in range(1 + len(data) // 200):
            spoilt[self._chance.randrange(len(spoilt))] = self._chance.randrange(256)
        return bytes(spoilt)
