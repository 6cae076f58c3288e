"""edge-run: anonymise files, folders and streams in the foreground."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from types import FrameType

from edge.cli.ending import exit_code_of
from edge.cli.options import build_parser, job_template
from edge.cli.progress import Display, make_display
from edge.cli.streams import ensure_standard_streams, say
from edge.errors import DetectorError, InputError, InterruptedJobError
from edge.inputs import Plan, plan_jobs, recover_leftovers
from edge.jobs import WorkerProcess
from edge.messages import Failed

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    ensure_standard_streams()
    arguments = build_parser().parse_args(argv)

    def work() -> int:
        plan = plan_jobs(arguments.inputs, arguments.output, job_template(arguments))
        return run_plan(plan, make_display(arguments.json, arguments.quiet), arguments.verbose)

    # a name that is too long, a folder that may not be read
    return exit_code_of("edge-run", work, named_file=InputError)


def run_plan(plan: Plan, display: Display, verbose: bool) -> int:
    """Run all jobs one after the other; a failed one does not stop the rest. Returns the exit code."""
    if not plan.jobs and not plan.skipped:
        raise InputError("there is nothing to do: no video or picture was found")
    with WorkerProcess(show_worker_log=verbose) as worker, closing(display), stopping_on_signals(worker):
        for source, why in plan.skipped:
            display.notice(source, f"skipped, {why}")
        if plan.ignored:
            display.notice(f"{plan.ignored} other files", "neither videos nor pictures, or results of earlier runs")
        failures = run_jobs(plan, display, worker)
    if len(plan.jobs) > 1 and failures:
        say(f"edge-run: {len(failures)} of {len(plan.jobs)} failed:")
        for failure in failures:
            say(f"  {failure.message}")
    if not failures:
        return 0
    interrupted = failures[-1].exit_code == InterruptedJobError.exit_code
    return failures[-1].exit_code if len(plan.jobs) == 1 or interrupted else 1


def run_jobs(plan: Plan, display: Display, worker: WorkerProcess) -> list[Failed]:
    """Run the jobs until the end or until asked to stop; what went wrong."""
    failures: list[Failed] = []
    for position, job in enumerate(plan.jobs, 1):
        for left in recover_leftovers(job):
            display.notice(str(left.part), f"left by an earlier run; {left.outcome}, now {left.path.name}")
        display.begin(job, position, len(plan.jobs))
        outcome = worker.run(job, display.on_message)
        display.end(job, outcome)
        if isinstance(outcome, Failed):
            failures.append(outcome)
        elif count := outcome.summary.detector_failures:
            text = f"{job.source}: the detector failed on {count} frames; they are masked whole"
            failures.append(Failed(text, DetectorError.exit_code))
        if worker.stop_requested:
            break
    return failures


@contextmanager
def stopping_on_signals(worker: WorkerProcess) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP (the terminal has gone) end the current job in good order; a second one at once.

    One that is ignored stays so, as nohup and shells without job control want it.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        worker.request_stop()

    numbers = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
