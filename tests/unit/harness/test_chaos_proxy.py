"""The proxy does to a connection what each fault promises, and the same each time."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.harness.chaos_proxy import ChaosProxy, Fault

SENT = bytes(range(256)) * 256          # 64 KiB


@pytest.fixture
def server_port() -> Iterator[int]:
    """A server that sends SENT to whoever connects, then waits for the client to leave."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.sendall(SENT)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):
                        pass

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


def receive(port: int, timeout_s: float = 2.0) -> tuple[bytes, str]:
    """Everything a client gets, and how it ended: end, reset or timeout."""
    data = b""
    with socket.create_connection(("127.0.0.1", port), timeout_s) as client:
        try:
            while part := client.recv(65536):
                data += part
        except ConnectionResetError:
            return data, "reset"
        except TimeoutError:
            return data, "timeout"
        return data, "end"


@pytest.mark.parametrize(
    ("fault", "prefix_bytes", "length", "ending"),
    [
        (Fault("none"), len(SENT), len(SENT), "end"),
        (Fault("stall", after_bytes=10_000), 10_000, 10_000, "timeout"),
        (Fault("close", after_bytes=10_000), 10_000, 10_000, "end"),
        (Fault("half_close", after_bytes=10_000), 10_000, 10_000, "end"),
        (Fault("garbage", after_bytes=10_000), 10_000, len(SENT) + 1000, "end"),
        (Fault("corrupt", after_bytes=10_000, rate=0.5), 10_000, len(SENT), "end"),
        (Fault("drop", after_bytes=10_000, rate=1.0), 10_000, 10_000, "end"),
        (Fault("delay", after_bytes=64_000, seconds=0.1), len(SENT), len(SENT), "end"),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else "",
)
def test_each_fault(server_port: int, fault: Fault, prefix_bytes: int, length: int, ending: str) -> None:
    with ChaosProxy(server_port, [fault]) as proxy:
        data, how = receive(proxy.port, 0.5 if ending == "timeout" else 5.0)
    assert (len(data), how) == (length, ending)
    assert data[:prefix_bytes] == SENT[:prefix_bytes]
    assert (data == SENT) == (fault.kind in ("none", "delay"))


def test_reset(server_port: int) -> None:
    with ChaosProxy(server_port, [Fault("rst", after_bytes=10_000)]) as proxy:
        data, how = receive(proxy.port)
    assert how == "reset"               # what was on the way may be lost with it
    assert data == SENT[: len(data)]


def test_same_seed_same_damage_and_faults_in_turn(server_port: int) -> None:
    faults = [Fault("corrupt", rate=0.1), Fault("none")]
    received = []
    for seed in (1, 1, 2):
        with ChaosProxy(server_port, faults, seed=seed) as proxy:
            received.append(receive(proxy.port)[0])
            assert receive(proxy.port)[0] == SENT
            assert proxy.connections == 2
    assert received[0] == received[1] != received[2]
