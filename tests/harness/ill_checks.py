"""Checks of edge-doctor that go wrong, each in its own way."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from edge.cameras import ServiceSettings
from edge.doctor.finding import Finding
from edge.errors import UnavailableError


def fine(settings: ServiceSettings) -> list[Finding]:
    print("what a library prints")
    os.system("echo what a program prints")
    return [Finding("ok", f"metrics on {settings.metrics_port}")]


def crash(settings: ServiceSettings) -> list[Finding]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return []


def hang(settings: ServiceSettings) -> list[Finding]:
    """With a program of its own that holds the output open."""
    subprocess.Popen(["sleep", "60"])
    time.sleep(60)
    return []


def raise_expected(settings: ServiceSettings) -> list[Finding]:
    raise UnavailableError("GStreamer is missing", "install it")


def raise_unexpected(settings: ServiceSettings) -> list[Finding]:
    raise ValueError("the password is hunter2")


def leave(settings: ServiceSettings) -> list[Finding]:
    os._exit(3)
