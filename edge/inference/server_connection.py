"""One connection of a camera, as the inference process has it. What comes is checked; whoever breaks a rule goes."""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
import threading
import time
from dataclasses import dataclass

from edge.errors import EdgeError
from edge.inference.pool import Job, Pool
from edge.inference.shared_inputs import map_input
from edge.inference.wire import MAX_TEXT_BYTES, Hello, Request, Welcome, WireError, pack_error
from edge.types import UInt8

MAX_DEADLINE_S = 60.0
_MAX_REQUEST_BYTES = 64
_SEND_BUFFER_BYTES = 256 << 10      # holds the largest answer
_DESCRIPTOR = array.array("i", [0])


class GoneError(Exception):
    """The camera closed its end."""


@dataclass(frozen=True, slots=True)
class Packet:
    """What came. descriptor: of shared memory, to be closed; None when none came along."""

    content: bytes
    descriptor: int | None


class Connection:
    """Belongs to the main thread, except `answer`, which the thread of a run calls.

    pid: of the camera process, as the kernel knows it. hello: None until it came. pool: None until the network is
    loaded. max_side_px: of pictures.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.pid: int = struct.unpack("3i", credentials)[0]
        self.since_s = time.monotonic()
        self.hello: Hello | None = None
        self.pool: Pool | None = None
        self.max_side_px = 0
        self._socket = end
        self._lock = threading.Lock()
        self._closed = False
        self._busy = False
        self._misbehaved = ""
        self._memory: UInt8 | None = None

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.hello.camera} (process {self.pid})" if self.hello else f"process {self.pid}"

    def receive(self) -> Hello | None:
        """Take what came: a hello is given back, a request is started.

        Raises GoneError, and WireError for everything that a camera may not do.
        """
        packet = self._receive()
        if packet is None:
            return None
        try:
            if self.hello is None:
                self.hello = Hello.parse(packet.content)
                return self.hello
            self._start(Request.parse(packet.content), packet.descriptor)
        finally:
            if packet.descriptor is not None:
                os.close(packet.descriptor)
        return None

    def welcome(self, pool: Pool, max_side_px: int) -> None:
        """Tell the camera what was loaded. Raises GoneError."""
        self.pool, self.max_side_px = pool, max_side_px
        network = pool.network
        self._send(
            Welcome(
                network.model, network.reason, network.describe(), network.model_sha256, network.engine_sha256
            ).pack()
        )

    def refuse(self, error: EdgeError) -> None:
        """Answer the hello with an error. Raises GoneError."""
        self._send(pack_error(error))

    def answer(self, packet: bytes) -> None:
        """Answer the request under way. A camera that does not take its answers is cut off, and seen to be."""
        with self._lock:                            # or the descriptor could be another camera's by now
            self._busy = False
            try:
                self._socket.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                self._misbehaved = "does not take its answers"
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass                                # it is gone; the main thread sees it

    def is_open(self) -> bool:
        """Whether anybody waits for answers."""
        return not self._closed

    def close(self) -> None:
        """Let go; a run under way keeps the memory until it ends."""
        with self._lock:
            self._closed = True
            self._memory = None
            self._socket.close()

    def _start(self, request: Request, descriptor: int | None) -> None:
        if self.pool is None:
            raise WireError("asked before its model was loaded")
        if self._busy:
            raise WireError("asked before it was answered")
        if request.new_memory_bytes:
            if descriptor is None:
                raise WireError("announced memory and sent none")
            self._memory = map_input(descriptor, request.new_memory_bytes)
        elif descriptor is not None:
            raise WireError("sent a descriptor that it had not announced")
        if self._memory is None or request.input_bytes > len(self._memory):
            raise WireError(f"asked for {request.input_bytes} bytes beyond its memory")
        multiple = self.pool.network.model.input.stride_multiple
        if request.height_px % multiple or request.width_px % multiple:
            raise WireError(f"asked for {request.width_px}x{request.height_px}, which is no multiple of {multiple}")
        if max(request.height_px, request.width_px) > self.max_side_px:
            raise WireError(f"asked for {request.width_px}x{request.height_px}, more than {self.max_side_px}")
        pixels = self._memory[: request.input_bytes].reshape(1, request.height_px, request.width_px, 3)
        latest_ns = time.monotonic_ns() + int(MAX_DEADLINE_S * 1e9)
        self._busy = True
        self.pool.submit(
            Job(
                self.pid, request.number, pixels, request.min_score, min(request.deadline_ns, latest_ns),
                self.answer, self.is_open,
            )
        )  # fmt: skip

    def _send(self, packet: bytes) -> None:
        try:
            self._socket.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError as error:
            raise GoneError from error

    def _receive(self) -> Packet | None:
        most_bytes = MAX_TEXT_BYTES if self.hello is None else _MAX_REQUEST_BYTES
        try:
            content, ancillary, flags, _ = self._socket.recvmsg(
                most_bytes, socket.CMSG_SPACE(_DESCRIPTOR.itemsize), socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return None
        except OSError as error:
            raise GoneError from error
        descriptors = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        wrong = flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or len(descriptors) > 1
        if not content or wrong:
            for descriptor in descriptors:
                os.close(descriptor)
            if self._misbehaved:
                raise WireError(self._misbehaved)
            if not content and not wrong:
                raise GoneError
            raise WireError("sent more than it may")
        return Packet(content, descriptors[0] if descriptors else None)
