"""Count the faces that stay visible: edge-run with two models, and deface beside it, over labelled clips.

    python -m tests.bench.leaks                          the 20 labelled clips
    python -m tests.bench.leaks --hard /tmp/hard         clips derived by hard_clips.py instead, made where missing
    python -m tests.bench.leaks --only signer --columns yunet -- --look-ahead 0

Each output is judged by leakcheck.py of the shared data. Results of deface are kept in the cache by the hash of the
clip, since it does not change. What follows ``--`` goes to edge-run. `fps` counts the whole command, start included,
and is left out for kept results; speed.py compares speed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.deface import cache_dir, deface_command
from tests.bench.hard_clips import make as make_hard_clips

SHARED = Path(__file__).resolve().parents[3] / "shared"
LEAK_RATE_LIMIT = 0.001
RUN_LIMIT = 1
OVERMASK_LIMIT = 0.005
COLUMNS = ("yunet", "centerface", "deface", "deface scaled")


@dataclass(frozen=True)
class Result:
    """Verdict of leakcheck on one output; face counts are faces times frames. run: longest run of leaked frames."""

    clip: str
    column: str
    faces: int
    leaked: int
    missing: int
    run: int
    overmask: float
    fps: float
    leaked_frames: list[int]

    @property
    def rate(self) -> float:
        return self.leaked / max(1, self.faces)


@dataclass(frozen=True)
class Bench:
    """What a run needs: where things are and what is passed on."""

    work: Path
    yunet: str
    centerface: str
    options: Sequence[str]

    def command(self, column: str, clip: Path, output: Path) -> list[str]:
        """Command line that anonymises `clip` into `output`."""
        if column.startswith("deface"):
            scaled = ["--scale", "640x360"] if column == "deface scaled" else []
            return [str(deface_command()), str(clip), "-o", str(output), *scaled]
        model = self.yunet if column == "yunet" else self.centerface
        program = [sys.executable, "-m", "edge.cli.run"]
        return [*program, str(clip), "-o", str(output), "--overwrite", "-q", "--model", model, *self.options]

    def result(self, column: str, clip: Path, labels: Path) -> Result:
        """Anonymise and judge one clip; raises CalledProcessError when a program fails."""
        kept = cache_dir() / "leaks" / f"{_digest(clip, labels)}-{column.replace(' ', '-')}.json"
        if column.startswith("deface") and kept.exists():
            # How busy the machine was then is not known.
            return replace(Result(**json.loads(kept.read_text())), fps=0.0)
        output = self.work / f"{clip.stem}-{column.replace(' ', '-')}.mp4"
        source = clip
        if clip.suffix == ".gif" and column.startswith("deface"):    # which takes .gif for a picture
            source = _as_video(clip, self.work / f"{clip.stem}.mp4")
        started = time.perf_counter()
        _run(self.command(column, source, output))
        elapsed_s = time.perf_counter() - started
        check = [sys.executable, str(SHARED / "tools/leakcheck.py"), str(clip), str(output), str(labels), "--json"]
        report = json.loads(_run(check))
        result = Result(clip.name, column, report["faces"], report["leaked"], report["missing"],
                        report["longest_leak_run"], report["overmask"],
                        round(report["output_frames"] / elapsed_s, 1), report["leaked_frames"])
        if column.startswith("deface"):
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(asdict(result)))
        return result


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr[-2000:])
        done.check_returncode()
    return done.stdout


def _digest(*paths: Path) -> str:
    """Of the contents, so that a cached result goes with its clip."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def _as_video(clip: Path, target: Path) -> Path:
    """The same frames at the same times in MP4, visually lossless."""
    command = ["ffmpeg", "-v", "error", "-y", "-i", str(clip), "-c:v", "libx264", "-crf", "8", "-pix_fmt", "yuv420p",
               "-vf", "crop=trunc(iw/2)*2:trunc(ih/2)*2", str(target)]
    _run(command)
    return target


def labelled(data: Path) -> list[tuple[Path, Path]]:
    """The labelled real clips: (clip, labels)."""
    found = []
    for labels in sorted((data / "videos/labels").glob("*.json")):
        found.append((data / "videos/real" / json.loads(labels.read_text())["clip"], labels))
    return found


def show(results: list[Result], columns: Sequence[str], console: Console) -> None:
    """One row per clip and one for all; per column the leak rate, longest run, overmask and frames per second."""
    table = Table(title="leaked faces / longest run / overmask / fps", title_justify="left")
    table.add_column("clip")
    table.add_column("faces", justify="right")
    for column in columns:
        table.add_column(column, justify="right")
    by_clip: dict[str, dict[str, Result]] = {}
    for result in results:
        by_clip.setdefault(result.clip, {})[result.column] = result
    for clip, row in by_clip.items():
        cells = [_cell(row[column]) if column in row else "failed" for column in columns]
        table.add_row(clip, str(next(iter(row.values())).faces), *cells)
    totals = []
    for column in columns:
        rows = [result for result in results if result.column == column]
        faces, leaked = sum(r.faces for r in rows), sum(r.leaked for r in rows)
        over = sum(r.overmask for r in rows) / max(1, len(rows))
        totals.append(f"{leaked / max(1, faces):.2%} / {max((r.run for r in rows), default=0)} / {over:.2%}")
    table.add_section()
    table.add_row("all", str(sum(r.faces for r in results if r.column == columns[0])), *totals)
    console.print(table)


def _cell(result: Result) -> str:
    fps = f"{result.fps:.0f}" if result.fps else "-"
    return f"{result.rate:.2%} / {result.run} / {result.overmask:.2%} / {fps}"


def complaints(results: list[Result]) -> list[str]:
    """What misses the limits of the project, or is worse than deface by default."""
    found = []
    deface = {result.clip: result for result in results if result.column == "deface"}
    for column in ("yunet", "centerface"):
        rows = [result for result in results if result.column == column]
        rate = sum(r.leaked for r in rows) / max(1, sum(r.faces for r in rows))
        if rate > LEAK_RATE_LIMIT:
            found.append(f"{column}: {rate:.2%} of faces leak")
        for row in rows:
            if row.run > RUN_LIMIT:
                found.append(f"{column}, {row.clip}: {row.run} leaked frames in a row")
            if row.overmask >= OVERMASK_LIMIT:
                found.append(f"{column}, {row.clip}: {row.overmask:.2%} overmask")
            if row.clip in deface and row.leaked > deface[row.clip].leaked:
                found.append(f"{column}, {row.clip}: {row.leaked} leaks, deface {deface[row.clip].leaked}")
    return found


def main(argv: list[str] | None = None) -> int:
    """Entry point; 1 when a limit is missed or a program failed."""
    arguments, options = _arguments(sys.argv[1:] if argv is None else argv)
    console = Console(width=max(150, Console().width))
    clips = labelled(arguments.data)
    if arguments.hard:
        clips = [(clip, clip.with_suffix(".json")) for clip in make_hard_clips(arguments.hard, arguments.data)]
    clips = [(clip, labels) for clip, labels in clips if arguments.only in clip.name]
    columns, results, failed = arguments.columns.split(","), [], []
    with tempfile.TemporaryDirectory(prefix="edge-leaks-") as scratch:
        work = arguments.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        bench = Bench(work, arguments.yunet, arguments.centerface, options)
        for clip, labels in clips:
            for column in columns:
                try:
                    results.append(bench.result(column, clip, labels))
                    print(f"{column:14s} {clip.name:28s} {_cell(results[-1])}", file=sys.stderr, flush=True)
                except subprocess.CalledProcessError as error:
                    failed.append(f"{column}, {clip.name}: {error}")
    show(results, columns, console)
    missed = [*complaints(results), *failed]
    for line in missed:
        console.print(line, highlight=False)
    if arguments.json:
        arguments.json.write_text(json.dumps({"results": [asdict(r) for r in results], "missed": missed}, indent=1))
    return 1 if missed else 0


def _arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--hard", type=Path, metavar="DIR", help="take the derived clips in DIR, not the real ones")
    parser.add_argument("--only", default="", help="clips whose name holds this")
    parser.add_argument("--columns", default=",".join(COLUMNS), help="default: %(default)s")
    parser.add_argument("--yunet", default=str(SHARED / "data/models/detectors/yunet_n_dynamic.onnx"))
    parser.add_argument("--centerface", default="centerface", help="description name or file")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep the outputs here")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers here, too")
    if "--" in argv:
        split = argv.index("--")
        return parser.parse_args(argv[:split]), argv[split + 1:]
    return parser.parse_args(argv), []


if __name__ == "__main__":
    sys.exit(main())
