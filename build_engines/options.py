"""The options of edge-build. Light: nothing heavy is imported for --help."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edge import __version__
from edge.cli.options import Parser, natural, number
from edge.errors import UsageError

Precision = Literal["int8", "fp16", "fp32"]
DEFAULT_LEVEL = 3               # TensorRT's own
DEFAULT_FRAME = (1920, 1080)
DEFAULT_BATCHES = (1, 8)


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What to build. None: not given. frames: width and height. workspace_bytes, level: of TensorRT.
    max_loss: a share."""

    precision: Precision = "int8"
    models: tuple[str, ...] = ("auto",)
    models_dir: Path | None = None
    calibration: Path | None = None
    ranges: Path | None = None
    engine_dir: Path | None = None
    batches: tuple[int, ...] | None = None
    frames: tuple[tuple[int, int], ...] = (DEFAULT_FRAME,)
    workspace_bytes: int | None = None
    level: int = DEFAULT_LEVEL
    max_loss: float = 0.005
    force_int8: bool = False
    backend: Literal["auto", "tensorrt", "onnxruntime"] = "auto"
    max_time_s: float | None = None


def build_parser() -> Parser:
    """All options of edge-build."""
    parser = Parser(
        prog="edge-build",
        description="Builds the face detectors for this machine: calibrates INT8 on your pictures, builds several "
        "candidates, measures how fast each is and whether it finds the same faces, and keeps the fastest that does.",
        epilog="Exit codes: 0 done, or everything is current; 1 failed, 64 wrong arguments, 66 input unreadable, 69 a "
        "needed part is missing, 74 writing failed, 75 another edge-build is at work, 78 configuration, or something "
        "is not current, 130 interrupted.",
    )
    group = parser.add_argument_group("what to build")
    kinds = group.add_mutually_exclusive_group()
    for kind, text in (
        ("int8", "INT8 where it is faster and finds the faces, FP16 elsewhere (default)"),
        ("fp16", "no INT8"),
        ("fp32", "neither INT8 nor FP16"),
    ):
        kinds.add_argument(f"--{kind}", action="store_const", const=kind, dest="precision", help=text)
    parser.set_defaults(precision="int8")
    add = group.add_argument
    add("--model", action="append", default=[], metavar="NAME", help="as for edge-run; repeatable (default: auto)")
    add("--models-dir", type=Path, metavar="DIR", help="where downloaded models are kept")
    add(
        "--frame",
        action="append",
        type=frame,
        default=[],
        metavar="WxH",
        help="size of your cameras' pictures, for TensorRT; repeatable (default 1920x1080)",
    )
    add("--batch", type=batches, metavar="N,N", help="pictures per run, for TensorRT (default 1,8)")
    add(
        "--backend",
        choices=("auto", "tensorrt", "onnxruntime"),
        default="auto",
        help="what to build for (default: TensorRT where it and a GPU are there, else ONNX Runtime)",
    )
    add("--config", type=Path, metavar="FILE", help="models and sizes of all cameras in a configuration of edge-daemon")

    group = parser.add_argument_group("calibration")
    add = group.add_argument
    add(
        "--calibration",
        type=Path,
        metavar="DIR|LIST",
        help="100 to 500 pictures from your cameras, a folder or a text file with one path per line; a part is held "
        "out to judge on (default: a built-in set, which proves less)",
    )
    add("--ranges", type=Path, metavar="FILE", help="ranges that an earlier build wrote, instead of calibrating")

    group = parser.add_argument_group("choosing")
    add = group.add_argument
    add(
        "--max-recall-loss",
        type=lambda text: number(text, 0, 100) / 100,
        default=0.005,
        metavar="POINTS",
        help="percentage points of faces that may be lost, overall and of small faces (default 0.5)",
    )
    speed = group.add_mutually_exclusive_group()
    for name, force, text in (
        ("--keep-fastest", False, "keep INT8 only where it is faster (default)"),
        ("--force-int8", True, "keep INT8 even where it is slower; never where it loses faces"),
    ):
        speed.add_argument(name, action="store_const", const=force, dest="force_int8", help=text)
    parser.set_defaults(force_int8=False)
    add("--workspace", type=natural_mib, metavar="MIB", help="memory that TensorRT may use while it builds")
    add(
        "--level",
        type=int,
        choices=range(6),
        default=DEFAULT_LEVEL,
        help="how hard TensorRT looks for quick kernels; each step takes longer (default 3)",
    )
    add("--max-time", type=lambda text: number(text, 1), metavar="S", help="try no more in INT8 after this long")

    group = parser.add_argument_group("files and feedback")
    add = group.add_argument
    add("--engine-dir", type=Path, metavar="DIR", help="where engines go; edge-run looks in the same place by default")
    modes = group.add_mutually_exclusive_group()
    modes.add_argument("--check", action="store_true", help="only say whether what is there is current (exit 0 or 78)")
    modes.add_argument("--dry-run", action="store_true", help="only say what would be built, and how long it may take")
    add("--json", action="store_true", help="the report as JSON on stdout")
    add("-q", "--quiet", action="store_true", help="no progress")
    add("--version", action="version", version=f"edge-build {__version__}")
    return parser


def build_options(arguments: argparse.Namespace) -> BuildOptions:
    """Arguments as options. Raises UsageError for combinations that make no sense."""
    if arguments.precision != "int8" and arguments.force_int8:
        raise UsageError(f"--force-int8 and --{arguments.precision} exclude each other", "give one of them")
    if arguments.precision != "int8" and arguments.ranges is not None:
        raise UsageError(f"--ranges is for INT8, not for --{arguments.precision}", "leave one out")
    if arguments.config is not None and (arguments.model or arguments.frame):
        raise UsageError("--config and --model or --frame exclude each other", "leave out one side")
    if arguments.ranges is not None and len(arguments.model) > 1:
        raise UsageError("--ranges belongs to one model", "name that one with --model, or leave --ranges out")
    return BuildOptions(
        precision=arguments.precision,
        models=tuple(dict.fromkeys(arguments.model)) or ("auto",),
        models_dir=arguments.models_dir,
        calibration=arguments.calibration,
        ranges=arguments.ranges,
        engine_dir=arguments.engine_dir,
        batches=arguments.batch,
        frames=tuple(dict.fromkeys(arguments.frame)) or (DEFAULT_FRAME,),
        workspace_bytes=arguments.workspace and arguments.workspace << 20,
        level=arguments.level,
        max_loss=arguments.max_recall_loss,
        force_int8=arguments.force_int8,
        backend=arguments.backend,
        max_time_s=arguments.max_time,
    )


def frame(text: str) -> tuple[int, int]:
    """``WxH``."""
    found = re.fullmatch(r"(\d{2,5})[xX](\d{2,5})", text)
    if found is None or not all(16 <= int(side) <= 16384 for side in found.groups()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 1920x1080")
    return int(found[1]), int(found[2])


def batches(text: str) -> tuple[int, ...]:
    """Comma-separated numbers of pictures, ascending."""
    return tuple(sorted({natural(part) for part in text.split(",")}))


def natural_mib(text: str) -> int:
    """Mebibytes."""
    return int(number(text, 16, 1 << 20))
