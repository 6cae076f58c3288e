"""A camera that was taken over can harm itself only."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edge.errors import UnavailableError
from edge.inference.client import RemoteNetwork
from edge.inference.shared_inputs import WrittenInput
from edge.inference.wire import Hello, Request, Welcome, WireError, parse_answer
from edge.settings import DetectSettings
from tests.harness.inference_server import InferenceServer
from tests.unit.inference.conftest import Connect, noise

MEMORY_BYTES = 1 << 16
SIZE = {"height_px": 32, "width_px": 64}


class Rogue:
    """A camera that may say anything."""

    def __init__(self, server: InferenceServer, settings: DetectSettings, greets: bool = True) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.socket.connect(str(server.path))
        self._descriptors: list[int] = []
        if greets:
            try:
                self.socket.send(Hello("rogue", settings).pack())
                Welcome.parse(self.socket.recv(1 << 17))
            except BaseException:
                self.socket.close()
                raise

    def memory(self, size: int = MEMORY_BYTES, flags: int = os.MFD_ALLOW_SEALING, seal: bool = True) -> int:
        if seal:
            memory = WrittenInput(size)
            with memory.sent() as descriptor:
                self._descriptors.append(os.dup(descriptor))
            memory.close()
        else:
            self._descriptors.append(os.memfd_create("rogue", flags))
            os.ftruncate(self._descriptors[-1], size)
        return self._descriptors[-1]

    def file(self) -> int:
        self._descriptors.append(os.open("/proc/self/exe", os.O_RDONLY))
        return self._descriptors[-1]

    def say(self, packet: bytes, *descriptors: int) -> None:
        socket.send_fds(self.socket, [packet], list(descriptors))

    def ask(self, number: int = 1, memory_bytes: int = 0, descriptors: tuple[int, ...] = (), **values: object) -> None:
        deadline_ns = time.monotonic_ns() + 5 * 10**9
        request = {"min_score": 0.5, "deadline_ns": deadline_ns, **SIZE, **values}
        self.say(Request(number, new_memory_bytes=memory_bytes, **request).pack(), *descriptors)

    def is_cut_off(self) -> bool:
        """Whether the other side hung up, after whatever it said before."""
        with contextlib.suppress(ConnectionResetError):
            while self.socket.recv(1 << 17):
                pass
        return True

    def close(self) -> None:
        self.socket.close()
        for descriptor in self._descriptors:
            os.close(descriptor)


@pytest.fixture(scope="module")
def settings(default_model: Path) -> DetectSettings:
    return DetectSettings(model=str(default_model), backend="onnxruntime")


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory, settings: DetectSettings) -> Iterator[InferenceServer]:
    """One process for all tests that must not harm it."""
    with InferenceServer(tmp_path_factory.mktemp("lasting"), (settings,)) as running:
        yield running


@pytest.fixture
def server(lasting: InferenceServer) -> InferenceServer:
    lasting.listen()
    lasting.events.clear()
    return lasting


@pytest.fixture
def fresh(tmp_path: Path, settings: DetectSettings) -> Iterator[InferenceServer]:
    """A process that has served nobody yet."""
    with InferenceServer(tmp_path, (settings,)) as running:
        yield running


@pytest.fixture
def rogue(server: InferenceServer, settings: DetectSettings) -> Iterator[Rogue]:
    made = Rogue(server, settings)
    yield made
    made.close()


def ready(rogue: Rogue) -> None:
    """Give it memory that is in order."""
    rogue.ask(7, MEMORY_BYTES, (rogue.memory(),))
    parse_answer(rogue.socket.recv(1 << 17), 7, landmarks=True)


def after_memory(**values: object) -> Callable[[Rogue], None]:
    def misbehave(rogue: Rogue) -> None:
        ready(rogue)
        rogue.ask(**values)  # type: ignore[arg-type]

    return misbehave


def twice(rogue: Rogue) -> None:
    ready(rogue)
    for number in range(50):
        rogue.ask(number)


MISDEEDS: dict[str, Callable[[Rogue], None]] = {
    "no request": lambda rogue: rogue.say(b"GET / HTTP/1.1\r\n\r\n"),
    "a huge packet": lambda rogue: rogue.say(bytes(100_000)),
    "no memory": lambda rogue: rogue.ask(),
    "memory announced and not sent": lambda rogue: rogue.ask(memory_bytes=MEMORY_BYTES),
    "memory sent and not announced": lambda rogue: rogue.ask(descriptors=(rogue.memory(),)),
    "two memories": lambda rogue: rogue.ask(
        memory_bytes=MEMORY_BYTES, descriptors=(rogue.memory(), rogue.memory())
    ),
    "memory that can shrink": lambda rogue: rogue.ask(
        memory_bytes=MEMORY_BYTES, descriptors=(rogue.memory(seal=False),)
    ),
    "memory smaller than said": lambda rogue: rogue.ask(memory_bytes=4 * MEMORY_BYTES, descriptors=(rogue.memory(),)),
    "memory larger than any": lambda rogue: rogue.ask(memory_bytes=1 << 40, descriptors=(rogue.memory(),)),
    "a file": lambda rogue: rogue.ask(memory_bytes=4096, descriptors=(rogue.file(),)),
    "a picture beyond its memory": after_memory(height_px=1024, width_px=1024),
    "no picture": after_memory(height_px=0),
    "a picture of no multiple": after_memory(height_px=33),
    "a long picture": after_memory(height_px=8, width_px=65535),
    "larger than any scale": after_memory(height_px=2, width_px=8192),
    "score NaN": after_memory(min_score=float("nan")),
    "score 2": after_memory(min_score=2.0),
    "score -1": after_memory(min_score=-1.0),
    "before it is answered": twice,
}


@pytest.mark.parametrize("misdeed", MISDEEDS.values(), ids=list(MISDEEDS))
def test_whoever_breaks_a_rule_is_cut_off_and_named(
    server: InferenceServer, remote: Connect, rogue: Rogue, misdeed: Callable[[Rogue], None]
) -> None:
    honest, pid = remote(server), server.pid
    expected = honest.find(noise(), 0.05)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):    # cut off in the middle of it
        misdeed(rogue)
    assert rogue.is_cut_off()
    np.testing.assert_array_equal(honest.find(noise(), 0.05).boxes, expected.boxes)
    server.until(lambda: server.events)
    assert [event.text.startswith(f"rogue (process {os.getpid()}) ") for event in server.events] == [True]
    assert server.listen()
    assert server.pid == pid


HELLOS = {
    "empty object": b"{}",
    "no JSON": b"\x00\xff",
    "deep": b"[" * 8000,
    "a list": b"[1]",
    "another version": json.dumps({"version": 2}).encode(),
    "name with a line": json.dumps({"version": 1, "camera": "a\nb", "model": "x", "backend": "auto"}).encode(),
    "odd types": json.dumps({"version": 1, "camera": "a", "model": 7, "backend": "auto"}).encode(),
    "odd backend": json.dumps({"version": 1, "camera": "a", "model": "x", "backend": "sh"}).encode(),
    "odd directory": json.dumps(
        {"version": 1, "camera": "a", "model": "x", "backend": "auto", "engine_dir": [], "require_gpu": True}
    ).encode(),
}


@pytest.mark.parametrize("hello", HELLOS.values(), ids=list(HELLOS))
def test_odd_hellos(server: InferenceServer, settings: DetectSettings, remote: Connect, hello: bytes) -> None:
    odd = Rogue(server, settings, greets=False)
    odd.socket.send(hello)
    assert odd.is_cut_off()
    odd.close()
    remote(server).find(noise(), 0.5)


def test_pixels_that_change_while_they_are_read_harm_nobody(server: InferenceServer, rogue: Rogue) -> None:
    memory = WrittenInput(MEMORY_BYTES)
    with memory.sent() as descriptor:
        rogue.ask(1, MEMORY_BYTES, (descriptor,))
    for seed in range(50):
        memory.write(noise(32, 64, seed))
    parse_answer(rogue.socket.recv(1 << 17), 1, landmarks=True)
    memory.close()
    assert server.listen()


def test_one_process_cannot_take_all_connections(fresh: InferenceServer, settings: DetectSettings) -> None:
    rogues = []
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, WireError, ValueError):
        for _ in range(40):
            rogues.append(Rogue(fresh, settings))
    assert len(rogues) == 32
    fresh.until(lambda: any("gets no more" in event.text for event in fresh.events))
    for rogue in rogues:
        rogue.close()


def test_a_time_that_is_over_is_answered_without_a_run(fresh: InferenceServer, settings: DetectSettings) -> None:
    rogue = Rogue(fresh, settings)
    ready(rogue)
    fresh.until(lambda: fresh.report.requests == 1)
    runs = sum(fresh.report.batches.values())
    for number in range(5):
        rogue.ask(number, deadline_ns=time.monotonic_ns() - 1)
        _, status = struct.unpack_from("<IB", rogue.socket.recv(1 << 17))
        assert status == 1
    fresh.until(lambda: fresh.report.late == 5)
    assert sum(fresh.report.batches.values()) == runs
    rogue.close()


def test_who_leaves_is_not_run(fresh: InferenceServer, settings: DetectSettings, remote: Connect) -> None:
    """Requests of cameras that are gone by the time of their turn."""
    rogues = [Rogue(fresh, settings) for _ in range(20)]
    for rogue in rogues:
        rogue.ask(1, 3 * 1024 * 1024, (rogue.memory(3 * 1024 * 1024),), height_px=1024, width_px=1024)
        rogue.close()
    honest = remote(fresh)
    honest.find(noise(), 0.5)
    fresh.until(lambda: fresh.report.clients == 1 and fresh.report.requests)
    assert sum(fresh.report.batches.values()) < 15


def test_reports(fresh: InferenceServer, remote: Connect) -> None:
    network = remote(fresh)
    for _ in range(3):
        network.find(noise(), 0.5)
    fresh.until(lambda: fresh.report.requests == 3)
    assert fresh.report.models == [f"{network.model.title} on {network.describe()}"]
    assert fresh.report.batches == {"1": 3}
    assert fresh.report.clients == 1
    assert fresh.report.run_ms.count == fresh.report.wait_ms.count == 3
    before = fresh.report.progress
    fresh.until(lambda: fresh.report.progress > before + 1)       # nothing to do is progress, too
    assert fresh.stop() == 0


def test_it_ends_with_its_supervisor(fresh: InferenceServer, remote: Connect) -> None:
    remote(fresh)
    fresh._channel.close()
    assert fresh._process is not None
    assert fresh._process.wait(10) == 1


def test_news_of_a_model_counts_before_its_camera(
    fresh: InferenceServer, settings: DetectSettings, remote: Connect
) -> None:
    """Also when both have come by the time that the process looks."""
    remote(fresh)
    other = DetectSettings(model=settings.model, backend="auto")
    os.kill(fresh.pid, signal.SIGSTOP)
    network = RemoteNetwork(fresh.path, other, "new", 5.0)
    assert not network.ready                        # has said hello
    fresh.tell((settings, other))
    os.kill(fresh.pid, signal.SIGCONT)
    assert network.connect(20)
    fresh.tell((settings,))
    late = RemoteNetwork(fresh.path, other, "late", 5.0)
    time.sleep(0.2)
    with pytest.raises(UnavailableError, match="not told"):
        late.connect(20)
    network.find(noise(), 0.5)                      # who has it keeps it, until it leaves
    fresh.until(lambda: len(fresh.report.models) == 2)
    network.close()
    late.close()
    fresh.until(lambda: len(fresh.report.models) == 1)


def test_reports_get_through_whatever_is_said(server: InferenceServer, settings: DetectSettings) -> None:
    end_s = time.monotonic() + 2
    before, count = server.report.progress, 0
    while time.monotonic() < end_s:
        odd = Rogue(server, settings, greets=False)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            odd.socket.send(b"{}")
            odd.is_cut_off()
        odd.close()
        count += 1
        server.listen()
    assert count > 50
    assert len(server.events) <= 150
    assert server.report.progress > before
