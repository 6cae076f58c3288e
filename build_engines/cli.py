"""edge-build: calibrate, build, measure, keep the fastest that finds the faces."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from types import FrameType

from build_engines.options import BuildOptions, build_options, build_parser
from edge.errors import ConfigError, EdgeError, InterruptedJobError, StorageError


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    arguments = build_parser().parse_args(argv)
    try:
        with terminated_as_interrupted():
            options = build_options(arguments)
            if arguments.config is not None:
                from build_engines.cameras import options_for_cameras

                wanted = options_for_cameras(arguments.config, options)
                if wanted is None:
                    print(f"edge-build: no camera in {arguments.config} uses an engine", file=sys.stderr)
                    return 0
                options = wanted
            if arguments.check:
                return _check(options, arguments.json)
            if arguments.dry_run:
                return _dry_run(options, arguments.json)
            return _build(options, arguments.json, arguments.quiet)
    except EdgeError as error:
        print(f"edge-build: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("edge-build: interrupted; engines that were there before still work", file=sys.stderr)
        return InterruptedJobError.exit_code
    except BrokenPipeError:  # the reader of our output has gone, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        print("edge-build: memory ran out; stop other programs, or give fewer or smaller pictures", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"edge-build: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return StorageError.exit_code


def _build(options: BuildOptions, as_json: bool, quiet: bool) -> int:
    from build_engines.job import build
    from build_engines.progress import make_display
    from build_engines.report import text, values

    display = make_display(quiet)
    try:
        report = build(options, display)
    finally:
        display.close()
    print(json.dumps(values(report), indent=2) if as_json else text(report))
    return 0


def _check(options: BuildOptions, as_json: bool) -> int:
    from build_engines.check import check, check_text
    from build_engines.job import resolve

    states = check(options, resolve(options))
    print(json.dumps([asdict(state) for state in states], indent=2) if as_json else check_text(states))
    return ConfigError.exit_code if any(state.problem for state in states) else 0


def _dry_run(options: BuildOptions, as_json: bool) -> int:
    from build_engines.check import dry_run, dry_run_text
    from build_engines.job import resolve

    plan = dry_run(options, resolve(options))
    print(json.dumps(plan, indent=2) if as_json else dry_run_text(plan))
    return 0


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends a build as Ctrl-C does: child processes and unfinished files go."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
