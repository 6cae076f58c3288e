"""edge-run: anonymise files, folders and streams in the foreground."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from types import FrameType

from edge.cli.options import build_parser, job_template
from edge.cli.progress import Display, make_display
from edge.errors import DetectorError, EdgeError, InputError
from edge.inputs import Plan, plan_jobs
from edge.jobs import WorkerProcess
from edge.messages import Failed

EX_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    arguments = build_parser().parse_args(argv)
    try:
        plan = plan_jobs(arguments.inputs, arguments.output, job_template(arguments))
        return run_plan(plan, make_display(arguments.json, arguments.quiet), arguments.verbose)
    except EdgeError as error:
        print(f"edge-run: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output has gone, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def run_plan(plan: Plan, display: Display, verbose: bool) -> int:
    """Run all jobs one after the other; a failed one does not stop the rest."""
    failures: list[Failed] = []
    with WorkerProcess(show_worker_log=verbose) as worker, closing(display):

        def on_signal(signum: int, frame: FrameType | None) -> None:
            worker.request_stop()

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            for source, why in plan.skipped:
                display.skipped(source, why)
            for position, job in enumerate(plan.jobs, 1):
                display.begin(job, position, len(plan.jobs))
                outcome = worker.run(job, display.on_message)
                display.end(job, outcome)
                if isinstance(outcome, Failed):
                    failures.append(outcome)
                elif count := outcome.summary.detector_failures:
                    text = f"{job.source}: the detector failed on {count} frames; they are masked whole"
                    failures.append(Failed(text, DetectorError.exit_code))
                if worker.stop_requested:
                    return EX_INTERRUPTED if job.kind != "stream" or failures else 0
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    if not plan.jobs and not plan.skipped:
        raise InputError("there is nothing to do: no video or picture was found")
    if len(plan.jobs) > 1 and failures:
        print(f"edge-run: {len(failures)} of {len(plan.jobs)} failed:", file=sys.stderr)
        for failure in failures:
            print(f"  {failure.message}", file=sys.stderr)
    if not failures:
        return 0
    return failures[0].exit_code if len(plan.jobs) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
