"""edge-status: what the daemon on this machine is doing, from its status file; and whether recordings are intact."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edge import __version__
from edge.cameras import RecordingSettings, ServiceSettings
from edge.cli.ending import exit_code_of
from edge.cli.options import Parser
from edge.cli.streams import complain, ensure_standard_streams
from edge.errors import RetryLater, UnavailableError
from edge.reports import ServiceStatus, to_plain
from edge.status.reading import age_s, read_status, refuse_stale

WATCH_INTERVAL_S = 1.0


def build_parser() -> argparse.ArgumentParser:
    """The command line of edge-status."""
    parser = Parser(
        prog="edge-status",
        description="Shows what edge-daemon on this machine is doing, or checks its recordings.",
        epilog="Exit codes: 0 all is well, 1 something is not (or --verify found something), 64 wrong arguments, "
        "69 no status (the daemon does not run), 75 an old status (the daemon hangs or was killed), 130 interrupted.",
    )
    parser.add_argument("--runtime-dir", type=Path, default=ServiceSettings(()).runtime_dir, metavar="DIR",
                        help="where the daemon writes its status (default: %(default)s)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="answer in JSON; the fields are in docs/monitoring.md")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--watch", action="store_true", help="go on until Ctrl-C; with --json one line a second")
    what.add_argument("--verify", nargs="?", type=Path, const=Path(), metavar="ROOT",
                      help="check all segments and sidecars under ROOT (default: where it records)")  # fmt: skip
    parser.add_argument("--version", action="version", version=f"edge-status {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    ensure_standard_streams()
    arguments = build_parser().parse_args(argv)
    return exit_code_of("edge-status", lambda: run(arguments))


def run(arguments: argparse.Namespace) -> int:
    """Show the status or verify recordings. Raises EdgeError, OSError."""
    if arguments.verify is not None:
        from edge.status.verification import verify_roots

        roots = [arguments.verify] if arguments.verify.parts else recording_roots(arguments.runtime_dir)
        return verify_roots(roots, arguments.json)
    show = show_json if arguments.json else show_table
    return watch(arguments.runtime_dir, show) if arguments.watch else show_once(arguments.runtime_dir, show)


def show_once(runtime_dir: Path, show: Callable[[ServiceStatus, bool], None]) -> int:
    """Show the status; 0 when all is well, else 1. Raises UnavailableError or RetryLater."""
    status = read_status(runtime_dir)
    refuse_stale(status)
    show(status, False)
    return 0 if status.state == "running" else 1


def watch(runtime_dir: Path, show: Callable[[ServiceStatus, bool], None]) -> int:
    """Show it every second, for ever; also over a restart of the daemon."""
    while True:
        try:
            status = read_status(runtime_dir)
            refuse_stale(status)
            show(status, True)
        except (UnavailableError, RetryLater) as error:
            complain(f"edge-status: {error}")
        time.sleep(WATCH_INTERVAL_S)


def show_json(status: ServiceStatus, again: bool) -> None:
    """One JSON object; `again`: on one line."""
    values = to_plain(status) | {"age_s": round(age_s(status), 3)}
    print(json.dumps(values, indent=None if again else 2), flush=True)


def show_table(status: ServiceStatus, again: bool) -> None:
    """Tables for people; `again`: over the last ones, on a terminal."""
    from edge.status.view import make_console, view

    console = make_console()
    if again:
        console.clear()
    with console.capture() as captured:
        console.print(view(status, console.width))
    print("\n".join(line.rstrip() for line in captured.get().splitlines()), flush=True)


def recording_roots(runtime_dir: Path) -> list[Path]:
    """Where the daemon records or did last, else the place that the configuration has by default."""
    try:
        keeper = read_status(runtime_dir).keeper
    except UnavailableError:
        keeper = None
    roots = [Path(root.directory) for root in keeper.roots] if keeper is not None else []
    return roots or [RecordingSettings().directory]


if __name__ == "__main__":
    sys.exit(main())
