"""A running daemon under a service manager, as a test sees it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edge.reports import ProcessReport, ServiceStatus, from_plain
from tests.harness.fake_systemd import FakeSystemd


class Service:
    """Starts `command` when entered, and kills it when left."""

    def __init__(self, command: Sequence[str], runtime_dir: Path, watchdog_s: float | None = None) -> None:
        self._command, self.runtime_dir = command, runtime_dir
        self.systemd = FakeSystemd(watchdog_s)

    def __enter__(self) -> Service:
        self.systemd.start(self._command)
        return self

    def __exit__(self, *exit_: Any) -> None:
        self.systemd.__exit__(*exit_)

    @property
    def pid(self) -> int:
        """Of the supervisor."""
        assert self.systemd.process is not None
        return self.systemd.process.pid

    @property
    def log(self) -> str:
        """What it said so far."""
        return self.systemd.log.read_text()

    def signal(self, number: signal.Signals) -> None:
        """To the supervisor."""
        os.kill(self.pid, number)

    def end(self, number: signal.Signals, seconds: float = 20.0) -> int:
        """Signal, and the exit code."""
        assert self.systemd.process is not None
        self.signal(number)
        return self.systemd.process.wait(seconds)

    def status(self) -> ServiceStatus | None:
        """The newest one of this daemon."""
        try:
            found: ServiceStatus = from_plain(json.loads((self.runtime_dir / "status.json").read_text()))
        except OSError:
            return None
        return found if found.pid == self.pid else None

    def wait(self, good: Callable[[ServiceStatus], Any], seconds: float = 30.0) -> ServiceStatus:
        """The first status that is good."""
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            status = self.status()
            if status is not None and good(status):
                return status
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s: {self.status()}")


def process(status: ServiceStatus, name: str) -> ProcessReport:
    """The process of that name."""
    return next(each for each in status.processes if each.name == name)
