"""One child over many lives: started, listened to, killed when it hangs, started again with back-off."""

from __future__ import annotations

import contextlib
import selectors
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from edge.channel import ChannelClosedError, Stop
from edge.errors import ConfigError
from edge.reports import CameraReport, Event, Fatal, Level, ProcessReport, Report
from edge.service.journal import LineBudget
from edge.supervisor.backoff import Backoff
from edge.supervisor.limits import StateReport, hang
from edge.supervisor.output import Output
from edge.supervisor.plans import Plan
from edge.supervisor.process import Process, describe_exit

State = Literal["running", "stopping", "killed", "backing_off", "failed", "ended"]

STOP_S = 15.0
# Between its last word, or the end of its channel, and its end.
LAST_WORD_S = 5.0
# SIGKILL works at once, unless the process hangs in the kernel: on a disk, in a driver.
KILL_S = 10.0
# A child that ends well without being asked is started at once, but not in a circle.
SHORT_RUN_S = 10.0
REMEMBERED_HANGS = 5
# What is still read from the channel of a process that has ended.
LAST_TURNS = 8
BURST_EVENTS, EVENT_INTERVAL_S = 60, 2.0


class Child:
    """Keeps the process of a plan going. Nothing here waits: the loop calls `tick`, and `ended` when it has ended.

    selector: its descriptors are registered there, with the function to call as data. emit: gets its events.
    clock: monotonic seconds.
    """

    def __init__(self, plan: Plan, selector: selectors.BaseSelector, emit: Callable[[Event], None],
                 clock: Callable[[], float]) -> None:  # fmt: skip
        self.plan, self.state = plan, "ended"
        self.report: StateReport | None = None
        self.since_s = clock()          # when the state began
        self.hung_s: deque[float] = deque(maxlen=REMEMBERED_HANGS)
        self.restarts = self.killed_hung = 0
        self.last_error = ""
        self._selector, self._emit, self._clock = selector, emit, clock
        self._wanted = True
        self._replaced = False
        self._backoff = Backoff()
        self._events = LineBudget(BURST_EVENTS, EVENT_INTERVAL_S, self.since_s)
        self._process: Process | None = None
        self._output: Output | None = None
        self._fatal: Fatal | None = None
        self._started_s = self._heard_s = self._progressed_s = self.since_s
        self._deadline_s = float("inf")

    state: State

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        return self._process.pid if self._process else None

    @property
    def is_wanted(self) -> bool:
        """False from `stop` on."""
        return self._wanted

    @property
    def name(self) -> str:
        """Of the plan."""
        return self.plan.name

    def to_report(self) -> ProcessReport:
        """For the status."""
        state = "stopping" if self.state in ("killed", "ended") else self.state
        return ProcessReport(self.name, state, self.pid, self.restarts, self.killed_hung, self.last_error)

    def start(self) -> None:
        """Start the process; what prevents it counts as a failed run."""
        now_s = self._clock()
        self.report = self._fatal = None
        self._started_s = self._heard_s = self._progressed_s = now_s
        self._replaced = False
        try:
            self._process = Process(self.plan.module, self.plan.settings, self.plan.descriptors)
        except OSError as error:
            self._back_off(f"cannot be started: {error.strerror}", now_s)
            return
        self._output = Output(self._process.output, self._on_line, now_s)
        self._selector.register(self._process.channel, selectors.EVENT_READ, self._on_channel)
        self._selector.register(self._process.output, selectors.EVENT_READ, self._on_output)
        self._enter("running", now_s)
        self._say("debug", "started", f"started as process {self._process.pid}")

    def stop(self) -> None:
        """Ask it to finish, and do not start it again."""
        self._wanted = False
        if self.state == "running":
            self._ask_to_stop()
        elif self.state in ("backing_off", "failed"):
            self._enter("ended", self._clock())

    def change(self, plan: Plan) -> None:
        """Go on with another plan: the running process is told so, or finishes and is replaced. What has failed is
        tried again."""
        keeps = self._wanted and self.plan.fixed == plan.fixed
        self.plan, self._wanted = plan, True
        if self.state == "running" and keeps and self._process is not None:
            with contextlib.suppress(ChannelClosedError):       # it ends, and its successor is told
                self._process.channel.send(plan.settings)
        elif self.state == "running":
            self._replaced = True
            self._ask_to_stop()
        elif self.state in ("stopping", "killed"):
            self._replaced = True
        else:
            self._backoff.reset()
            self.start()

    def kill(self, why: str) -> None:
        """SIGKILL; it is started again, if it is still wanted, when it has ended."""
        if self._process is None or self.state == "killed":
            return
        now_s = self._clock()
        self.last_error = why
        self._process.kill()
        self._enter("killed", now_s, KILL_S)

    def tick(self) -> None:
        """What is due now. To be called several times a second, after descriptors were read."""
        now_s = self._clock()
        if self._output is not None:
            self._output.tick(now_s)
        if count := self._events.left_out(now_s):
            self._say("warning", "left_out", f"{count} more events were left out")
        if self.state == "running":
            self._look_for_hang(now_s)
        if now_s < self._deadline_s:
            return
        if self.state == "backing_off":
            self.restarts += 1
            self.start()
        elif self.state == "running":
            self.kill("does not end after its last word")
        elif self.state == "stopping":
            self._say("warning", "stop", f"did not stop within {STOP_S:.0f} s and was killed")
            self.kill("did not stop in time")
        elif self.state == "killed":
            self._deadline_s = float("inf")
            self._say("error", "unkillable", "cannot be killed: it hangs in the kernel (a disk or a driver?)")

    def ended(self) -> None:
        """The process has ended and is to be waited for."""
        if self._process is None or self._output is None:
            return
        for _ in range(LAST_TURNS):
            self._on_channel()
        code, now_s = self._process.wait(), self._clock()
        self._output.finish(now_s)
        self._ignore(self._process.channel)
        self._ignore(self._process.output)
        self._process.close()
        last_line = self._output.last_line
        was, self._process, self._output = self.state, None, None
        if not self._wanted:
            self._enter("ended", now_s)
        elif self._replaced:
            self._backoff.reset()
            self.start()
        elif was == "killed":
            self._back_off(self.last_error, now_s)
        else:
            self._on_own_end(code, last_line, now_s)

    def _on_own_end(self, code: int, last_line: str, now_s: float) -> None:
        if self._fatal is not None:
            code, why = self._fatal.exit_code, self._fatal.text
        else:
            why = describe_exit(code) + (f": {last_line}" if code and last_line else "")
        if code == 0 and now_s - self._started_s >= SHORT_RUN_S:
            self.restarts += 1
            self.start()
        elif code == ConfigError.exit_code:
            self.last_error = why
            self._enter("failed", now_s)
            self._say("error", "failed", f"{why}; not tried again before the next reload")
        else:
            self._back_off(why, now_s)

    def _back_off(self, why: str, now_s: float) -> None:
        self.last_error = why
        wait_s = self._backoff.after_run(now_s - self._started_s)
        self._enter("backing_off", now_s, wait_s)
        self._say("warning", "backing_off", f"{why}; next try in {wait_s:.1f} s")

    def _look_for_hang(self, now_s: float) -> None:
        why = hang(self.report, now_s - self._heard_s, now_s - self._progressed_s, self.plan.stall_timeout_s)
        if why:
            self.killed_hung += 1
            self.hung_s.append(now_s)
            self.kill(f"{why} and was killed")

    def _ask_to_stop(self) -> None:
        self._enter("stopping", self._clock(), STOP_S)
        if self._process is not None:
            try:
                self._process.channel.send(Stop())
            except ChannelClosedError:
                self.kill("does not listen")

    def _enter(self, state: State, now_s: float, limit_s: float = float("inf")) -> None:
        self.state, self.since_s, self._deadline_s = state, now_s, now_s + limit_s

    def _on_channel(self) -> None:
        if self._process is None:
            return
        try:
            reports = self._process.channel.receive()
        except ChannelClosedError:
            self._ignore(self._process.channel)
            self._end_soon()
            return
        for report in reports:
            self._on_report(report)

    def _on_report(self, report: Report) -> None:
        now_s = self._clock()
        if isinstance(report, Event):
            if self._events.allows(now_s):
                # A camera speaks for itself only: it decodes hostile streams.
                subject = self.name if self.plan.is_camera else report.subject or self.name
                self._emit(replace(report, subject=subject))
        elif isinstance(report, Fatal):
            self._fatal = report
            self._end_soon()
        elif isinstance(report, self.plan.report_type):
            if isinstance(report, CameraReport):
                report.camera = self.name
            old, self.report, self._heard_s = self.report, report, now_s
            if old is None or (old.progress, old.state) != (report.progress, report.state):
                self._progressed_s = now_s

    def _end_soon(self) -> None:
        if self.state == "running":
            self._deadline_s = min(self._deadline_s, self._clock() + LAST_WORD_S)

    def _on_output(self) -> None:
        if self._process is not None and self._output is not None and not self._output.read(self._clock()):
            self._ignore(self._process.output)

    def _ignore(self, channel: object) -> None:
        if channel in self._selector.get_map():
            self._selector.unregister(channel)  # type: ignore[arg-type]

    def _on_line(self, line: str) -> None:
        self._emit(Event("info", "", f"prints: {line}", self.name))

    def _say(self, level: Level, key: str, text: str) -> None:
        self._emit(Event(level, f"process.{key}", text, self.name))
