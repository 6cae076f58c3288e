"""A child of the supervisor that behaves as its settings say: ``python -m tests.harness.fake_child FD``."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from edge.channel import ChannelClosedError, ChildEnd, Stop
from edge.reports import CameraReport, Event, Fatal, InferenceReport, KeeperReport


@dataclass(frozen=True)
class FakeSettings:
    """kind: camera, inference or keeper. behaviour: a function of this module. mark: makes settings differ."""

    kind: str
    behaviour: str = "work"
    mark: str = ""
    more: dict[str, Any] = field(default_factory=dict)


class FakeChild:
    """One child; `progress` counts its reports."""

    def __init__(self, end: ChildEnd, settings: FakeSettings) -> None:
        self.end, self.settings, self.progress = end, settings, 0

    def report(self, progress: int | None = None) -> None:
        """A good report."""
        self.progress += 1
        number = self.progress if progress is None else progress
        if self.settings.kind == "camera":
            self.end.report(CameraReport("a name that is not mine", "recording", progress=number, frames_out=number,
                                         detail=self.settings.mark))  # fmt: skip
        elif self.settings.kind == "inference":
            self.end.report(InferenceReport("ready", self.settings.mark, number))
        else:
            self.end.report(KeeperReport("watching", progress=number))

    def until_stop(self, seconds: float = 1e9, progress: int | None = None) -> bool:
        """Report ten times a second; whether Stop came."""
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            self.report(progress)
            command = self.end.receive(0.1)
            if isinstance(command, Stop):
                return True
            if command is not None:
                self.settings = command
        return False


def work(child: FakeChild) -> None:
    """Until told to stop."""
    child.until_stop()


def leave(child: FakeChild) -> None:
    """After a second, well."""
    child.until_stop(1.0)


def crash(child: FakeChild) -> None:
    """By an invalid access, after last words."""
    child.until_stop(0.3)
    print("the last words of a decoder", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def vanish(child: FakeChild) -> None:
    """At once, killed from outside."""
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(child: FakeChild) -> None:
    """For good: the configuration is wrong."""
    child.end.report(Fatal("engine is stale; run edge-build", 78))
    sys.exit(78)


def hang(child: FakeChild) -> None:
    """After the first report."""
    child.report()
    time.sleep(1e6)


def wedge(child: FakeChild) -> None:
    """Report for ever without progress."""
    child.until_stop(progress=7)


def deaf(child: FakeChild) -> None:
    """Never stop."""
    while True:
        child.report()
        time.sleep(0.1)


def lie(child: FakeChild) -> None:
    """Send what is no report, and reports of others."""
    while True:
        for packet in (b"[" * 60000, b'{"type":"CameraReport","camera":3}', b"\xff\x00", b"{}", b"1e999"):
            with contextlib.suppress(BlockingIOError):
                child.end._socket.send(packet)
        with contextlib.suppress(ChannelClosedError):
            child.end.report(KeeperReport("stopping"))
        child.report()
        time.sleep(0.01)


def flood(child: FakeChild) -> None:
    """Reports, events and bytes on stderr without a line end, as fast as possible."""
    while True:
        child.report()
        child.end.report(Event("warning", os.urandom(4).hex(), "look \x1b[31m at me", "someone else"))
        os.write(2, b"x" * 8192 if child.progress % 50 else b"\n")
        if isinstance(child.end.receive(0), Stop):
            return


def parent(child: FakeChild) -> None:
    """Have a child of one's own, and crash."""
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    child.end.report(CameraReport("", "recording", detail=str(grandchild.pid)))
    child.until_stop(1.0)
    os.kill(os.getpid(), signal.SIGKILL)


def say_environment(child: FakeChild) -> None:
    """Tell which variables of the service manager are visible, and the limit of core dumps."""
    import resource

    seen = sorted(name for name in os.environ if name.startswith(("NOTIFY", "WATCHDOG")))
    child.end.report(Event("info", "environment", f"variables {seen} core {resource.getrlimit(resource.RLIMIT_CORE)}"))
    child.until_stop()


def main() -> None:
    """Behave."""
    end = ChildEnd(int(sys.argv[1]))
    settings = end.receive(5.0)
    behaviour: Callable[[FakeChild], None] = globals()[settings.behaviour]
    with contextlib.suppress(ChannelClosedError):
        behaviour(FakeChild(end, settings))


if __name__ == "__main__":
    main()
