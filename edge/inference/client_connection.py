"""One connection to the inference process, as a camera has it."""

from __future__ import annotations

import itertools
import select
import socket
import time
from pathlib import Path

from edge.detect.candidates import Candidates
from edge.inference.shared_inputs import WrittenInput
from edge.inference.wire import MAX_ANSWER_BYTES, MAX_TEXT_BYTES, Request, Welcome, parse_answer
from edge.types import UInt8

# The inference process is told to give up a little earlier than the camera does, so that its answer still counts.
_MARGIN = 0.05


class LostError(Exception):
    """The other side is gone, or gave no answer in time, or said something it may not say."""


class ClientConnection:
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
            raise LostError(f"{path}: {error.strerror}") from None

    def welcome(self, timeout_s: float) -> Welcome | None:
        """The answer to the hello; None when it has not come. Raises LostError, and the error that was answered."""
        packet = self._receive(timeout_s)
        return None if packet is None else Welcome.parse(bytes(packet))

    def ask(self, pixels: UInt8, min_score: float, deadline_ns: int, least_bytes: int, landmarks: bool) -> Candidates:
        """See `RemoteNetwork.find`. least_bytes: size of the memory, when it has to be made.

        Raises WireError and what `parse_answer` raises, LostError when no answer came in time.
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
            raise LostError(f"the inference process is gone ({error.strerror})") from None
        packet = self._receive((deadline_ns - time.monotonic_ns()) / 1e9)
        if packet is None:
            raise LostError("no answer from the inference process in time")
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
            raise LostError(f"the inference process is gone ({error.strerror})") from None
        if not size:
            raise LostError("the inference process is gone")
        return self._buffer[:size]

    def _poll(self, timeout_s: float) -> list[tuple[int, int]]:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return poll.poll(max(0.0, 1000 * timeout_s))
