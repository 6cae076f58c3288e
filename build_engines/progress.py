"""Shows how far a build is: a bar on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

PLAIN_INTERVAL_S = 5.0


class Display(Protocol):
    """What a build reports to."""

    def stage(self, text: str) -> None: ...

    def step(self, done: int, total: int) -> None: ...

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...


def make_display(quiet: bool) -> Display:
    """A bar, or plain lines; with quiet nothing but notes."""
    if sys.stderr.isatty() and not quiet:
        return Bar()
    return PlainLines(quiet)


class PlainLines:
    """One line per stage, and one every few seconds while it lasts, with how long the rest of it may take."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._started_s = self._stage_s = self._printed_s = time.monotonic()
        self._text = ""

    def stage(self, text: str) -> None:
        self._stage_s = time.monotonic()
        if text != self._text and (not self._text or self._stage_s - self._printed_s >= 0.2 or ":" in text):
            self._print(text)
        self._text = text

    def step(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - self._printed_s < PLAIN_INTERVAL_S or not done:
            return
        rest = f", {remaining(now_s - self._stage_s, done, total)} left" if total > done else ""
        self._print(f"  {self._text}: {done}{f' of {total}' if total else ''}{rest}")

    def note(self, text: str) -> None:
        print(f"edge-build: {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        pass

    def _print(self, text: str) -> None:
        self._printed_s = time.monotonic()
        if not self._quiet:
            print(f"[{self._printed_s - self._started_s:6.1f} s] {text}", file=sys.stderr, flush=True)


class Bar:
    """rich's bar for the current stage; notes are printed above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._console = Console(stderr=True, highlight=False)
        self._bar: RichProgress = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn(), TimeElapsedColumn(),
            console=self._console, transient=True,
        )   # fmt: skip
        self._bar.start()
        self._task = self._bar.add_task("", total=None)

    def stage(self, text: str) -> None:
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task(text, total=None)

    def step(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total or None)

    def note(self, text: str) -> None:
        self._console.print(text, style="yellow", markup=False, soft_wrap=True)

    def close(self) -> None:
        self._bar.stop()


def remaining(elapsed_s: float, done: int, total: int) -> str:
    """How long the rest takes at the pace so far, for people."""
    return duration(elapsed_s / done * (total - done))


def duration(seconds: float) -> str:
    """``12 s``, ``3 min 20 s``, ``1 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
