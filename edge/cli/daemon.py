"""edge-daemon: record all cameras of a configuration, until told to stop."""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import edge
from edge.cli.streams import complain, ensure_standard_streams
from edge.errors import ConfigError, EdgeError

if TYPE_CHECKING:
    from edge.reports import Level
    from edge.supervisor.plans import Modules

DEFAULT_CONFIG = Path("/etc/edge/edge.yaml")
LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="edge-daemon", description=__doc__.partition(": ")[2])
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--check", action="store_true",
                        help="say what is wrong with the configuration, and with what it refers to, and exit")
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="what to say on stderr; default: info")
    parser.add_argument("--version", action="version", version=f"edge-daemon {edge.__version__}")
    return parser


def main(argv: Sequence[str] | None = None, modules: Modules | None = None) -> int:
    """Entry point; returns the exit code. modules: what runs as the daemon's processes, for tests."""
    ensure_standard_streams()
    arguments = build_parser().parse_args(argv)
    config = arguments.config.absolute()
    # Frames with faces must not end up in a core dump; children inherit this.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        return check(config) if arguments.check else serve(config, arguments.log_level, modules)
    except EdgeError as error:
        for line in str(error).splitlines():
            complain(f"edge-daemon: {line}")
        return error.exit_code


def check(config: Path) -> int:
    """Print every problem; 0 when the service can run, 78 when it cannot."""
    from edge.config import check_service, load_service

    problems = check_service(load_service(config))
    for problem in problems:
        complain(f"edge-daemon: {problem}")
    errors = sum(problem.level == "error" for problem in problems)
    complain(f"edge-daemon: {config}: {f'{errors} error' + 's' * (errors > 1) if errors else 'good'}")
    return ConfigError.exit_code if errors else 0


def serve(config: Path, log_level: Level, modules: Modules | None) -> int:
    """Run the service."""
    from edge.config import load_service
    from edge.service.board import BoardReader
    from edge.service.journal import Journal
    from edge.service.jtop import JtopReader
    from edge.service.metrics import MetricsServer
    from edge.service.notify import Notifier
    from edge.supervisor.loop import Supervisor, Surroundings
    from edge.supervisor.plans import Modules, make_plans
    from edge.supervisor.runtime_dir import RuntimeDirectory, choose

    settings = load_service(config)
    with ExitStack() as stack:
        runtime = stack.enter_context(closing(RuntimeDirectory(choose(settings, os.environ))))
        notifier = stack.enter_context(closing(Notifier.from_environment(os.environ)))
        board = BoardReader(jtop=JtopReader.installed())
        board.start()
        stack.callback(board.stop)
        port = settings.metrics_port
        metrics = None if port is None else MetricsServer(port, lambda: supervisor.latest)
        surroundings = Surroundings(runtime.path, Journal(level=log_level), notifier, board.latest,
                                    lambda: metrics.problem if metrics else "")  # fmt: skip
        supervisor = Supervisor(
            settings, config, partial(load_service, config),
            partial(make_plans, modules or Modules(), runtime.listener, runtime.socket_path), surroundings)  # fmt: skip
        if metrics is not None:
            metrics.start()
            stack.callback(metrics.stop)
        return supervisor.run()



if __name__ == "__main__":
    sys.exit(main())
