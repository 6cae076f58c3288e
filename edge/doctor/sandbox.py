"""edge-doctor inside the service's own sandbox: what the service may not do, a check from a shell does not see.

systemd starts a transient unit with the properties of the installed one, its drop-ins included.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from edge.errors import UnavailableError

BOOTED = Path("/run/systemd/system")  # sd_booted(3)
# Of [Service], what is about running the daemon and not about where it runs. RuntimeDirectory: it would be removed with
# the transient unit, under the daemon's feet.
NOT_THE_SANDBOX = (
    "Exec",
    "Type",
    "NotifyAccess",
    "Watchdog",
    "Restart",
    "Timeout",
    "Kill",
    "SuccessExitStatus",
    "OOMPolicy",
    "RuntimeDirectory",
    "RemainAfterExit",
    "FileDescriptorStore",
    "Sockets",
    "PIDFile",
    "Standard",
)


def command(unit: str, program: Sequence[str], booted: Path = BOOTED) -> list[str]:
    """The command that runs `program` as `unit` would run it, and gives its output and exit code.

    booted: exists where systemd runs the machine. Raises UnavailableError where it does not, or has no such unit.
    """
    if not booted.is_dir() or shutil.which("systemd-run") is None:
        raise UnavailableError(
            "systemd does not run this machine, so its sandbox cannot be entered",
            "run edge-doctor --as-service on the machine that records, as root",
        )
    done = subprocess.run(
        ["systemctl", "cat", "--no-pager", unit], capture_output=True, text=True, timeout=20, check=False
    )
    if done.returncode:
        raise UnavailableError(f"systemd has no unit {unit}", "make install, then systemctl daemon-reload")
    properties = [f"--property={setting}" for setting in sandbox(done.stdout)]
    return ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", *properties, "--", *program]


def sandbox(unit_text: str) -> list[str]:
    """The assignments of [Service] that make the sandbox, in order, from a unit file and its drop-ins."""
    settings, section = [], ""
    for line in unit_text.replace("\\\n", " ").splitlines():
        text = line.strip()
        if text.startswith("["):
            section = text
        elif section == "[Service]" and "=" in text and not text.startswith(("#", ";", *NOT_THE_SANDBOX)):
            settings.append(text)
    return settings
