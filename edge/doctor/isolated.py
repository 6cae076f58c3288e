"""Each check runs in a process of its own, with a time limit: drivers and codecs crash and hang, and that is a finding.

The same file is both sides: `run` starts ``python -m edge.doctor.isolated MODULE:FUNCTION``, which reads the settings
from stdin and writes its findings to stdout.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

from edge.cameras import ServiceSettings
from edge.doctor.checks import Check
from edge.doctor.finding import Finding
from edge.errors import EdgeError

PACKAGE = Path(__file__).resolve().parents[1]


def run(check: Check, settings: ServiceSettings) -> list[Finding]:
    """The findings of one check; its crash, time-out or defect is one, too."""
    command = [sys.executable, "-m", "edge.doctor.isolated", check.function]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        output, _ = child.communicate(pickle.dumps(settings), check.limit_s)
    except subprocess.TimeoutExpired:
        return [
            Finding(
                "error",
                f"gives no answer within {check.limit_s:g} s",
                "a driver or a disk hangs; look into the kernel's log: journalctl -k",
            )
        ]
    finally:
        _end(child)
    if child.returncode:
        return [
            Finding(
                "error",
                f"ended by {_cause(child.returncode)}",
                "a library crashed; look into the kernel's log: journalctl -k",
            )
        ]
    return [Finding(**values) for values in json.loads(output)]


def _end(child: subprocess.Popen[bytes]) -> None:
    """Also what it started. A process that hangs in a driver cannot be killed, and is left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(2)
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def main(function: str) -> None:
    """The child: run one check and write what it found."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no finding
    settings = pickle.loads(sys.stdin.buffer.read())
    module, _, name = function.partition(":")
    try:
        findings = getattr(importlib.import_module(module), name)(settings)
    except EdgeError as error:
        findings = [Finding("error", error.message, error.remedy)]
    except Exception as error:
        findings = [_defect(error)]
    json.dump([asdict(finding) for finding in findings], answer)
    answer.flush()
    os._exit(0)  # exit handlers of drivers crash, too, and have nothing to say


def _defect(error: Exception) -> Finding:
    """Where it happened and of which kind; not its text, which may hold anything."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(str(PACKAGE))]
    where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "?"
    number = f" {error.errno} ({os.strerror(error.errno)})" if isinstance(error, OSError) and error.errno else ""
    return Finding(
        "error", f"could not be checked: {type(error).__name__}{number} at {where}", "report this as a defect"
    )


if __name__ == "__main__":
    main(sys.argv[1])
