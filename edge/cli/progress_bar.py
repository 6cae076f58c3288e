"""The progress bar on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from edge.cli.progress import describe_finished, describe_started
from edge.messages import Failed, Finished, Job, Message, Note, Progress, Started
from edge.text import one_line


class ProgressBar:
    """One bar for the current file; what is worth keeping is printed above it."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}", markup=False),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._bar.start()
        self._task: TaskID | None = None
        self._name = ""

    def begin(self, job: Job, position: int, total: int) -> None:
        self._name = job.source
        count = f"[{position}/{total}] " if total > 1 else ""
        self._task = self._bar.add_task(one_line(f"{count}{job.source}"), total=None, speed="")
        self._print(f"{count}{job.source} -> {job.output}")

    def on_message(self, message: Message) -> None:
        if self._task is None:
            return
        if isinstance(message, Started):
            self._bar.update(self._task, total=message.frames)
            self._print("  " + describe_started(message))
        elif isinstance(message, Note):
            self._print(f"{self._name}: {message.text}", style="yellow")
        elif isinstance(message, Progress):
            summary = message.summary
            speed = f"{summary.frames_per_s:.1f} fps, {summary.faces} faces"
            self._bar.update(self._task, completed=summary.frames, speed=speed)

    def end(self, job: Job, outcome: Finished | Failed) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None
        if isinstance(outcome, Failed):
            self._print(outcome.message, style="red")
            return
        for line in describe_finished(outcome):
            self._print("  " + line)

    def notice(self, about: str, text: str) -> None:
        self._print(f"{about}: {text}")

    def close(self) -> None:
        self._bar.stop()

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(one_line(text), style=style, markup=False, soft_wrap=True)
