"""Shows a run to people (a bar on a terminal, plain lines elsewhere) or to machines (JSON lines)."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import Any, Protocol

from edge.cli.streams import say
from edge.messages import Failed, Finished, Job, Message, Note, Progress, Started, Summary

PLAIN_INTERVAL_S = 5.0


class Display(Protocol):
    """What a run reports to. `on_message` gets everything between the start and the end of a job."""

    def begin(self, job: Job, position: int, total: int) -> None: ...

    def on_message(self, message: Message) -> None: ...

    def end(self, job: Job, outcome: Finished | Failed) -> None: ...

    def notice(self, about: str, text: str) -> None: ...

    def close(self) -> None: ...


def make_display(as_json: bool, quiet: bool) -> Display:
    """JSON lines on stdout, nothing but errors, a bar, or plain lines, in that order of preference."""
    if as_json:
        return JsonLines()
    if sys.stderr.isatty() and not quiet:
        from edge.cli.progress_bar import ProgressBar

        return ProgressBar()
    return PlainLines(quiet)


class JsonLines:
    """One JSON object a line on stdout, each with an ``event``."""

    def __init__(self) -> None:
        self._source = ""

    def begin(self, job: Job, position: int, total: int) -> None:
        self._source = job.source
        self._emit("begin", source=job.source, output=str(job.output), position=position, total=total)

    def on_message(self, message: Message) -> None:
        if isinstance(message, Started):
            self._emit("started", frames=message.frames, ran_on=message.ran_on)
        elif isinstance(message, Progress):
            self._emit("progress", **summary_values(message.summary))
        elif isinstance(message, Note):
            self._emit("note", text=message.text)

    def end(self, job: Job, outcome: Finished | Failed) -> None:
        if isinstance(outcome, Finished):
            self._emit("finished", outputs=[str(path) for path in outcome.outputs], **summary_values(outcome.summary))
        else:
            self._emit("failed", message=outcome.message, exit_code=outcome.exit_code)

    def notice(self, about: str, text: str) -> None:
        self._source = about
        self._emit("notice", text=text)

    def close(self) -> None:
        pass

    def _emit(self, event: str, **values: Any) -> None:
        print(json.dumps({"event": event, "source": self._source} | values), flush=True)


class PlainLines:
    """A line every few seconds, for logs and pipes. With quiet: errors and notes only."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._printed_s = time.monotonic()
        self._frames: int | None = None
        self._name = ""

    def begin(self, job: Job, position: int, total: int) -> None:
        self._name = job.source
        self._say(f"{job.source} -> {job.output}" + (f" ({position} of {total})" if total > 1 else ""))

    def on_message(self, message: Message) -> None:
        if isinstance(message, Started):
            self._frames = message.frames
            self._say("  " + describe_started(message))
        elif isinstance(message, Note):
            say(f"edge-run: {self._name}: {message.text}")
        elif isinstance(message, Progress) and time.monotonic() - self._printed_s >= PLAIN_INTERVAL_S:
            self._printed_s = time.monotonic()
            summary = message.summary
            of = f" of about {self._frames}" if self._frames else ""
            self._say(f"  {summary.frames}{of} frames, {summary.frames_per_s:.1f} fps, {summary.faces} faces")

    def end(self, job: Job, outcome: Finished | Failed) -> None:
        if isinstance(outcome, Failed):
            say(f"edge-run: {outcome.message}")
            return
        for line in describe_finished(outcome):
            self._say("  " + line)

    def notice(self, about: str, text: str) -> None:
        self._say(f"{about}: {text}")

    def close(self) -> None:
        pass

    def _say(self, text: str) -> None:
        if not self._quiet:
            say(text)


def summary_values(summary: Summary) -> dict[str, Any]:
    """A summary as JSON values."""
    values = asdict(summary)
    del values["masked_share_sum"]
    rounded = {"masked_share": round(summary.masked_share, 5), "fps": round(summary.frames_per_s, 2)}
    return values | rounded | {"whole_frames": dict(summary.whole_frames), "elapsed_s": round(summary.elapsed_s, 3)}


def describe_started(started: Started) -> str:
    """What the job runs on, on one line."""
    return ", ".join(f"{part}: {what}" for part, what in started.ran_on.items())


def describe_finished(outcome: Finished) -> list[str]:
    """The summary that a person reads after a job."""
    summary = outcome.summary
    counts = f"{summary.frames} frames, {summary.faces} faces masked in {summary.tracks} tracks"
    lines = [f"{counts}, {summary.masked_share:.1%} of the picture, {summary.frames_per_s:.1f} fps"]
    lines += [f"{count} frames masked whole: {why}" for why, count in summary.whole_frames.items()]
    if summary.ended_early:
        lines.append(f"the input ended early: {summary.ended_early}")
    return lines + [f"written: {path}" for path in outcome.outputs]
