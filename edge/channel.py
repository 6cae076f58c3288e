"""Supervisor and child talk over a socket pair: settings down, reports up.

Down goes what the supervisor decided, pickled: a child trusts its parent. Up comes JSON only: a child may have been
taken over by the stream that it decodes, and what it says must not run code in its parent.
"""

from __future__ import annotations

import json
import pickle
import select
import socket
from dataclasses import dataclass
from typing import Any

from edge.reports import Report, from_plain, to_plain

# A packet is one message. The kernel's default send buffer (net.core.wmem_default, 208 KiB) has to hold it.
MAX_MESSAGE_BYTES = 128 << 10
# A child that talks without end must not keep the supervisor from the others.
MAX_PACKETS_PER_TURN = 32


@dataclass(frozen=True, slots=True)
class Stop:
    """Finish what has been read and end."""


class ChannelClosedError(Exception):
    """The other side is gone."""


class ParentEnd:
    """The supervisor's end; never blocks."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        end.setblocking(False)

    @staticmethod
    def pair() -> tuple[ParentEnd, socket.socket]:
        """The supervisor's end, and the socket to hand to the child."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return ParentEnd(ours), theirs

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    def send(self, command: Any) -> None:
        """Hand a command or settings down. Raises ChannelClosedError when the child is gone or does not listen."""
        try:
            self._socket.send(pickle.dumps(command))
        except OSError as error:
            raise ChannelClosedError from error

    def receive(self) -> list[Report]:
        """Reports that wait, not more than a turn's worth; what is no report is left out. Raises ChannelClosedError
        when the child is gone and everything that it said was received before."""
        reports: list[Report] = []
        for _ in range(MAX_PACKETS_PER_TURN):
            try:
                packet = self._socket.recv(MAX_MESSAGE_BYTES)
            except BlockingIOError:
                return reports
            except OSError as error:
                raise ChannelClosedError from error
            if not packet:
                if reports:
                    return reports
                raise ChannelClosedError
            try:
                reports.append(from_plain(json.loads(packet)))
            except (ValueError, RecursionError):
                continue
        return reports

    def close(self) -> None:
        """Let go."""
        self._socket.close()


class ChildEnd:
    """The child's end. file descriptor: as given on its command line."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    def report(self, report: Report) -> bool:
        """Tell the supervisor. False when it does not listen just now: reports may be lost, work must go on.

        Raises ChannelClosedError when the supervisor is gone.
        """
        packet = json.dumps(to_plain(report), separators=(",", ":")).encode()
        if len(packet) > MAX_MESSAGE_BYTES:
            return False
        try:
            self._socket.send(packet, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            raise ChannelClosedError from error
        return True

    def receive(self, timeout_s: float = 0.0) -> Any:
        """The next command, or None when there is none within `timeout_s`. Raises ChannelClosedError."""
        ready, _, _ = select.select([self._socket], [], [], timeout_s)
        if not ready:
            return None
        try:
            packet = self._socket.recv(MAX_MESSAGE_BYTES)
        except OSError as error:
            raise ChannelClosedError from error
        if not packet:
            raise ChannelClosedError
        return pickle.loads(packet)

    def close(self) -> None:
        """Let go."""
        self._socket.close()
