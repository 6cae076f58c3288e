"""Whether a long live run grows: memory, threads and file descriptors of all its processes, minute by minute.

    python -m tests.bench.soak [--seconds 600] [--clip ../shared/data/videos/real/portrait_01.mp4] [-- edge-run options]

A real RTSP server plays the clip over and over in real time; edge-run records it.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.bench.measure import process_tree, pss_bytes
from tests.harness.rtspd import RtspServer

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
SAMPLE_S = 2.0


def sample(pid: int) -> tuple[float, int, int]:
    """Proportional set size in MB, threads and file descriptors of a process and its descendants."""
    pids = process_tree(pid)
    threads = descriptors = 0
    for each in pids:
        with contextlib.suppress(OSError):
            threads += sum(1 for _ in Path(f"/proc/{each}/task").iterdir())
            descriptors += sum(1 for _ in Path(f"/proc/{each}/fd").iterdir())
    return sum(map(pss_bytes, pids)) / 1e6, threads, descriptors


def main() -> int:
    """Entry point; returns edge-run's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--clip", type=Path, default=SHARED / "videos" / "real" / "portrait_01.mp4")
    parser.add_argument("--model", default="auto")
    parser.add_argument("options", nargs="*", help="for edge-run, after --")
    arguments = parser.parse_args()
    samples: list[tuple[float, float, int, int]] = []
    with tempfile.TemporaryDirectory(prefix="edge-soak-") as folder, RtspServer({"clip": arguments.clip}) as server:
        command = [
            sys.executable, "-m", "edge.cli.run", f"rtsp://127.0.0.1:{server.port}/clip", "-o", f"{folder}/out.mp4",
            "--duration", str(arguments.seconds), "--quiet", "--model", arguments.model, *arguments.options,
        ]  # fmt: skip
        process = subprocess.Popen(command)
        started_s = time.monotonic()
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task("soak", total=arguments.seconds)
            while process.poll() is None:
                time.sleep(SAMPLE_S)
                elapsed_s = time.monotonic() - started_s
                samples.append((elapsed_s, *sample(process.pid)))
                progress.update(task, completed=elapsed_s)
    shown = Table("minute", "MB, median", "MB, highest", "threads", "descriptors")
    for minute in range(arguments.seconds // 60):
        rows = [row for row in samples if minute * 60 <= row[0] < (minute + 1) * 60]
        if rows:
            _, memory, threads, descriptors = zip(*rows, strict=True)
            shown.add_row(str(minute + 1), f"{statistics.median(memory):.0f}", f"{max(memory):.0f}",
                          str(max(threads)), str(max(descriptors)))
    Console().print(shown)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
