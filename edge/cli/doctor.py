"""edge-doctor: checks this machine, and says for each finding what to do."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from edge import __version__
from edge.cameras import ServiceSettings
from edge.cli.ending import exit_code_of
from edge.cli.options import Parser
from edge.cli.streams import ensure_standard_streams
from edge.doctor.checks import CHECKS, Check
from edge.doctor.finding import Finding
from edge.doctor.isolated import run
from edge.errors import ConfigError
from edge.text import one_line

DEFAULT_CONFIG = Path("/etc/edge/edge.yaml")
UNIT = "edge.service"
Named = tuple[str, Finding]  # check and finding


def build_parser() -> argparse.ArgumentParser:
    """The command line of edge-doctor."""
    parser = Parser(
        prog="edge-doctor",
        description="Checks whether this machine can record as configured, and says what to do about what it finds.",
        epilog="Exit codes: 0 nothing that keeps it from recording, 1 errors were found, 64 wrong arguments, "
        "69 --as-service without systemd, 78 the configuration is wrong, 130 interrupted.",
    )
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help=f"the daemon's configuration (default: {DEFAULT_CONFIG})")
    add("--cameras", action="store_true", help="also contact the RTSP cameras")
    add("--as-service", action="store_true", help="check from the sandbox of the installed service; as root")
    add(
        "--only",
        action="append",
        choices=[check.name for check in CHECKS],
        metavar="CHECK",
        default=[],
        help=f"one check; repeatable: {', '.join(check.name for check in CHECKS)}",
    )
    add("--json", action="store_true", help="findings as JSON")
    add("--version", action="version", version=f"edge-doctor {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    ensure_standard_streams()
    arguments = build_parser().parse_args(argv)

    def work() -> int:
        return _as_service(arguments) if arguments.as_service else _show(findings(arguments), arguments.json)

    return exit_code_of("edge-doctor", work)


def findings(arguments: argparse.Namespace) -> Iterator[Named]:
    """Configuration first, then every check, as they are done."""
    settings = ServiceSettings(())
    try:
        loaded, found = _configuration(arguments.config)
        settings = loaded or settings
        yield from (("configuration", each) for each in found)
    except ConfigError as error:
        lines = error.message.splitlines()
        yield from (("configuration", Finding("error", line)) for line in lines[:-1])
        yield "configuration", Finding("error", lines[-1], error.remedy)
    for check in CHECKS:
        if _is_wanted(check, arguments):
            yield from ((check.name, each) for each in run(check, settings))


def _is_wanted(check: Check, arguments: argparse.Namespace) -> bool:
    if arguments.only:
        return check.name in arguments.only
    return arguments.cameras or not check.contacts_cameras


def _configuration(path: Path | None) -> tuple[ServiceSettings | None, list[Finding]]:
    """Settings and what is said about them. Raises ConfigError."""
    if path is None and not DEFAULT_CONFIG.exists():
        return None, [
            Finding(
                "warning",
                f"there is no {DEFAULT_CONFIG}; checked without cameras",
                "make install brings one, or give --config FILE",
            )
        ]
    from edge.config import load_service

    settings = load_service(path or DEFAULT_CONFIG)
    if not settings.cameras:
        return settings, [
            Finding("warning", f"{path or DEFAULT_CONFIG} has no cameras", "docs/operations.md shows one")
        ]
    names = ", ".join(camera.name for camera in settings.cameras)
    return settings, [Finding("ok", f"{len(settings.cameras)} cameras: {names}")]


def _show(found: Iterator[Named], as_json: bool) -> int:
    seen: list[Named] = []
    for name, finding in found:
        seen.append((name, finding))
        if not as_json:
            _print(name, finding)
    if as_json:
        print(json.dumps([{"check": name, **asdict(finding)} for name, finding in seen], indent=2), flush=True)
    errors = [name for name, finding in seen if finding.level == "error"]
    warnings = sum(finding.level == "warning" for _, finding in seen)
    if not as_json:
        print(f"{len(errors)} errors, {warnings} warnings", flush=True)
    if "configuration" in errors:
        return ConfigError.exit_code
    return 1 if errors else 0


def _print(name: str, finding: Finding) -> None:
    print(f"{finding.level:<8}{name:<14}{one_line(finding.text)}", flush=True)
    if finding.remedy:
        print(f"{'':22}-> {one_line(finding.remedy)}", flush=True)


def _as_service(arguments: argparse.Namespace) -> int:
    from edge.doctor.sandbox import command

    config = ["--config", str(arguments.config.absolute())] if arguments.config else []
    flags = [f"--{name}" for name in ("cameras", "json") if getattr(arguments, name)]
    only = [word for name in arguments.only for word in ("--only", name)]
    program = [sys.executable, "-m", "edge.cli.doctor", *config, *flags, *only]
    return subprocess.run(command(UNIT, program), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
