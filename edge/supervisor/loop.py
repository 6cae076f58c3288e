"""The supervisor: one loop that never waits for anything but its descriptors and its clock."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import edge
from edge.cameras import ServiceSettings
from edge.errors import ConfigError, EdgeError
from edge.reports import BoardReport, Event, Level, ServiceStatus
from edge.service.health import utc_now, write_status
from edge.service.journal import Journal
from edge.service.notify import Notifier
from edge.supervisor.child import Child
from edge.supervisor.ending import Ending
from edge.supervisor.liveness import not_alive
from edge.supervisor.plans import Plan
from edge.supervisor.reaper import Reaper
from edge.supervisor.signals import SignalQueue
from edge.supervisor.status import add_children, summary

TURN_S = 0.25
STATUS_INTERVAL_S = 1.0
# Until every process has reported or failed, the service manager is asked once a second for this much more time.
START_EXTENSION_S = 30.0
# What a reload cannot change.
FIXED = ("runtime_dir", "metrics_port")


@dataclass(frozen=True)
class Surroundings:
    """What the loop tells, and asks. status_dir: of status and health.

    board: the board's own report. other_problem: one more problem to show, or "".
    """

    status_dir: Path
    journal: Journal
    notifier: Notifier
    board: Callable[[], BoardReport | None] = lambda: None
    other_problem: Callable[[], str] = str


class Supervisor:
    """Runs a configuration until told to stop.

    load: reads the configuration again, for a reload; raises ConfigError. config_path: for the status.
    make_plans: the processes that a configuration asks for, in the order of their start.
    """

    def __init__(
        self, settings: ServiceSettings, config_path: Path, load: Callable[[], ServiceSettings],
        make_plans: Callable[[ServiceSettings], Iterable[Plan]], surroundings: Surroundings,
    ) -> None:  # fmt: skip
        self._settings, self._config_path, self._load, self._make_plans = settings, config_path, load, make_plans
        self._status_dir, self._journal = surroundings.status_dir, surroundings.journal
        self._notifier, self._surroundings = surroundings.notifier, surroundings
        self._clock = time.monotonic
        self._selector = selectors.DefaultSelector()
        self._children: dict[tuple[bool, str], Child] = {}
        self._started_utc, self._last_reload = utc_now(), ""
        self._next_status_s = self._next_ping_s = 0.0
        self._is_ready = False
        self._ending: Ending | None = None
        self.latest: ServiceStatus | None = None

    def run(self) -> int:
        """Run; returns the exit code. Only for the main thread: children die with the thread that started them."""
        signals, reaper = SignalQueue(), Reaper()
        self._selector.register(signals, selectors.EVENT_READ, lambda: self._on_signals(signals.take()))
        try:
            self._say("info", "", f"edge-daemon {edge.__version__}: {len(self._settings.cameras)} cameras")
            self._apply(self._settings)
            while self._ending is None or not self._ending.is_over(self._clock()):
                for key, _ in self._selector.select(TURN_S):
                    key.data()
                reaper.reap(list(self._children.values()), self._clock())
                self._tick(self._clock())
            self._journal.flush()
            self._say("info", "", "stopped")
            return self._ending.exit_code
        finally:
            for child in self._children.values():
                child.kill("the supervisor ends")
            self._selector.close()
            signals.close()

    def _apply(self, settings: ServiceSettings) -> None:
        """Make the children those of these settings; what does not change goes on undisturbed."""
        self._settings = settings
        plans = {(plan.is_camera, plan.name): plan for plan in self._make_plans(settings)}
        for key, child in self._children.items():
            if key not in plans:
                child.stop()
        for key, plan in plans.items():
            known = self._children.get(key)
            if known is None:
                self._children[key] = child = Child(plan, self._selector, self._journal.write, self._clock)
                child.start()
            elif known.plan != plan or not known.is_wanted or known.state == "failed":
                known.change(plan)

    def _on_signals(self, numbers: list[int]) -> None:
        for number in numbers:
            if number in (signal.SIGTERM, signal.SIGINT):
                if self._ending is None:
                    self._stop(0, f"{signal.Signals(number).name}: stopping")
                else:
                    self._say("warning", "", "told to stop twice: open segments stay .part files")
                    self._ending.at_once()
            elif number == signal.SIGHUP and self._ending is None:
                self._reload()

    def _reload(self) -> None:
        """Read the configuration again. Inline: reading and checking a file of bounded size takes milliseconds."""
        if self._is_ready:
            self._notifier.reloading()
        try:
            settings = self._load()
        except EdgeError as error:
            self._last_reload = f"{utc_now()} failed, the old configuration goes on: {error}"
            for line in str(error).splitlines():
                self._say("error", "", f"not reloaded: {line}")
        else:
            fixed = [name for name in FIXED if getattr(settings, name) != getattr(self._settings, name)]
            hint = f"; {' and '.join(fixed)} change with the next restart" if fixed else ""
            self._last_reload = f"{utc_now()} done{hint}"
            self._say("warning" if fixed else "info", "", f"reloaded, {len(settings.cameras)} cameras{hint}")
            self._apply(settings)
        if self._is_ready:
            self._notifier.ready()

    def _stop(self, exit_code: int, why: str) -> None:
        self._notifier.stopping()
        self._say("info" if exit_code == 0 else "error", "", why)
        self._ending = Ending(list(self._children.values()), exit_code, self._clock())

    def _tick(self, now_s: float) -> None:
        for child in self._children.values():
            child.tick()
        if self._ending is not None:
            self._ending.tick(now_s)
        else:
            self._children = {key: child for key, child in self._children.items() if child.state != "ended"}
            self._give_up_where_nothing_runs()
        if now_s >= self._next_status_s:
            self._next_status_s = now_s + STATUS_INTERVAL_S
            self._tell(now_s)
        if self._notifier.watchdog_s is not None and now_s >= self._next_ping_s:
            self._next_ping_s = now_s + self._notifier.watchdog_s / 3
            self._ping(now_s)

    def _give_up_where_nothing_runs(self) -> None:
        failed = [child for child in self._children.values() if child.state == "failed"]
        cameras = [child for child in self._children.values() if child.plan.is_camera]
        no_detections = any(child.name == "inference" and not child.plan.is_camera for child in failed)
        if no_detections or (cameras and all(child.state == "failed" for child in cameras)):
            why = f"nothing can run before this is mended: {failed[0].name}: {failed[0].last_error}"
            self._stop(ConfigError.exit_code, why)

    def _tell(self, now_s: float) -> None:
        """Status, health, the service manager and the journal."""
        if not self._is_ready and self._ending is None:
            self._is_ready = all(child.report or child.state != "running" for child in self._children.values())
            if self._is_ready:
                self._notifier.ready()
            else:
                self._notifier.extend(START_EXTENSION_S)
        self.latest = status = self._make_status(now_s)
        self._notifier.status(summary(status))
        self._journal.tick()
        try:
            write_status(self._status_dir, status)
        except OSError as error:
            self._say("error", "status", f"{self._status_dir}: the status cannot be written: {error.strerror}")

    def _make_status(self, now_s: float) -> ServiceStatus:
        status = ServiceStatus(
            version=edge.__version__, pid=os.getpid(), state="starting", started_utc=self._started_utc,
            written_utc=utc_now(), written_monotonic_s=now_s, config_path=str(self._config_path),
            config_sha256=self._settings.config_sha256, last_reload=self._last_reload,
            board=self._surroundings.board())  # fmt: skip
        add_children(status, self._children.values())
        others = (not_alive(self._children.values(), now_s), self._surroundings.other_problem())
        status.problems += [text for text in others if text]
        if self._ending is not None:
            status.state = "stopping"
        elif self._is_ready:
            status.state = "degraded" if status.problems else "running"
        return status

    def _ping(self, now_s: float) -> None:
        why = not_alive(self._children.values(), now_s)
        if why:
            self._say("error", "not_alive", f"{why}: the service manager is no longer told that all is well")
        else:
            self._notifier.alive()

    def _say(self, level: Level, key: str, text: str) -> None:
        self._journal.write(Event(level, key and f"service.{key}", text))
