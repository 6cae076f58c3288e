"""How fast, and in how much memory: edge-run against deface and against decoding and encoding alone.

    python -m tests.bench.speed --clips ../shared/data/videos/real [--yunet FILE] [--centerface FILE] [--seconds 20]

Each row is one command on one clip, run `--repeats` times in turns with the others; medians. Times are of whole
processes, start-up included, so that what users wait for is what is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import av
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.bench.deface import deface_command
from tests.bench.measure import Measurement, measure

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
# A clip, the size it is brought to (None: as it is), and whether deface is run on it (minutes at 4K).
CLIPS = (("portrait_01.mp4", None, True), ("face_enters_01.mov", None, True), ("portrait_01.mp4", (1920, 1080), False),
         ("portrait_01.mp4", (3840, 2160), False))


@dataclass(frozen=True, slots=True)
class Case:
    """One row: a command with INPUT and OUTPUT in it."""

    name: str
    command: tuple[str, ...]


def cases(yunet: Path, centerface: Path, with_deface: bool) -> list[Case]:
    """All rows for a clip."""
    run = (sys.executable, "-m", "edge.cli.run", "INPUT", "-o", "OUTPUT", "--overwrite", "--quiet")
    single = ("--scale", "640x360", "--scan-interval", "0")
    rows = [
        Case("decode + encode only", (sys.executable, "-m", "tests.bench.passthrough", "INPUT", "OUTPUT")),
        Case("edge-run, yunet", (*run, "--model", str(yunet))),
        Case("edge-run, yunet, --scan-interval 0.2", (*run, "--model", str(yunet), "--scan-interval", "0.2")),
        Case("edge-run, yunet, --scale 640x360", (*run, "--model", str(yunet), *single)),
        Case("edge-run, centerface", (*run, "--model", str(centerface))),
        Case("edge-run, centerface, --scale 640x360", (*run, "--model", str(centerface), *single)),
    ]
    if with_deface:
        deface = (str(deface_command()), "INPUT", "-o", "OUTPUT", "--replacewith", "mosaic")
        rows += [Case("deface", deface), Case("deface --scale 640x360", (*deface, "--scale", "640x360"))]
    return rows


def prepare(clip: Path, size: tuple[int, int] | None, seconds: float, folder: Path) -> Path:
    """The clip repeated to `seconds`, scaled when asked; H.264 in MP4 at a quality that hides nothing."""
    target = folder / f"{clip.stem}_{size[1] if size else 'as_is'}p.mp4"
    scale = ["-vf", f"scale={size[0]}:{size[1]}"] if size else []
    if not target.exists():
        subprocess.run(
            ["ffmpeg", "-v", "error", "-y", "-stream_loop", "-1", "-i", str(clip), "-t", str(seconds), *scale, "-an",
             "-c:v", "libx264", "-preset", "veryfast", "-crf", "18", "-pix_fmt", "yuv420p", str(target)],
            check=True,
        )
    return target


def frame_count(path: Path) -> int:
    """Frames in the first video stream."""
    with av.open(str(path)) as container:
        return sum(packet.size > 0 for packet in container.demux(video=0))


def run_rows(
    rows: Sequence[Case], clip: Path, repeats: int, folder: Path, step: Callable[[], None]
) -> dict[str, list[Measurement]]:
    """Measure all rows `repeats` times, in turns, so that a noisy neighbour hits all of them."""
    found: dict[str, list[Measurement]] = {row.name: [] for row in rows}
    for _ in range(repeats):
        for row in rows:
            output = folder / "out.mp4"
            output.unlink(missing_ok=True)
            words = [{"INPUT": str(clip), "OUTPUT": str(output)}.get(word, word) for word in row.command]
            # deface's own ONNX Runtime takes all processors by default, as its users have it
            found[row.name].append(measure(words, os.environ | {"ORT_DISABLE_TELEMETRY": "1"}))
            step()
    return found


def table(clip: Path, frames: int, found: dict[str, list[Measurement]]) -> tuple[Table, list[dict[str, object]]]:
    """One clip's rows: frames per second, ratios, peak memory."""
    wall = {name: statistics.median(m.wall_s for m in runs) for name, runs in found.items()}
    shown = Table(title=f"{clip.name}, {frames} frames", title_justify="left")
    for head in ("", "fps", "ms/frame", "CPU ms/frame", "of decode+encode", "x deface --scale", "peak MB"):
        shown.add_column(head, justify="left" if not head else "right")
    rows: list[dict[str, object]] = []
    for name, runs in found.items():
        base, deface = wall.get("decode + encode only"), wall.get("deface --scale 640x360")
        row: dict[str, object] = {
            "clip": clip.name,
            "case": name,
            "fps": round(frames / wall[name], 1),
            "ms_per_frame": round(1000 * wall[name] / frames, 2),
            "cpu_ms_per_frame": round(1000 * statistics.median(m.cpu_s for m in runs) / frames, 2),
            "of_decode_encode": round(base / wall[name], 2) if base else None,
            "times_deface_scaled": round(deface / wall[name], 1) if deface else None,
            "peak_mb": round(max(m.peak_bytes for m in runs) / 1e6),
        }
        rows.append(row)
        shown.add_row(name, *("" if value is None else str(value) for key, value in list(row.items())[2:]))
    return shown, rows


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--clips", type=Path, default=SHARED / "videos" / "real", help="folder with the clips")
    parser.add_argument("--yunet", type=Path, default=SHARED / "models" / "detectors" / "yunet_n_dynamic.onnx")
    parser.add_argument("--centerface", default="centerface", help="description name or file")
    parser.add_argument("--seconds", type=float, default=20, help="length of each clip")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="only clips whose name holds this, e.g. 2160p")
    parser.add_argument("--no-deface", action="store_true")
    parser.add_argument("--json", type=Path, help="write the rows here, too")
    arguments = parser.parse_args()
    console = Console()
    processors = len(os.sched_getaffinity(0))
    console.print(f"{platform.machine()}, {processors} processors, Python {platform.python_version()}")
    everything: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="edge-bench-") as name, Progress(console=Console(stderr=True)) as progress:
        folder = Path(name)
        for source, size, with_deface in CLIPS:
            label = f"{size[1]}p" if size else "as_is"
            if arguments.only and arguments.only not in f"{source} {label}":
                continue
            clip = prepare(arguments.clips / source, size, arguments.seconds, folder)
            rows = cases(arguments.yunet, arguments.centerface, with_deface and not arguments.no_deface)
            task = progress.add_task(clip.name, total=len(rows) * arguments.repeats)
            found = run_rows(rows, clip, arguments.repeats, folder, partial(progress.advance, task))
            shown, values = table(clip, frame_count(clip), found)
            console.print(shown)
            everything += values
    if arguments.json:
        arguments.json.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
