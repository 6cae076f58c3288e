"""The options of edge-run: how they read on the command line and what they mean as settings."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from edge import __version__
from edge.errors import InputError, UsageError
from edge.inputs import JobTemplate, is_stream, split_address
from edge.settings import (
    DetectSettings,
    MaskSettings,
    RecordSettings,
    RunSettings,
    SourceSettings,
    TrackSettings,
    Zone,
)

# deface's words for what we call otherwise
METHOD_ALIASES = {"mosaic": "pixelate", "img": "image"}
DEFAULTS = RunSettings()


class Parser(argparse.ArgumentParser):
    """argparse with the exit code of sysexits.h for wrong arguments."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        self.exit(UsageError.exit_code, f"{self.prog}: {message}\n")


def build_parser() -> Parser:
    """All options of edge-run; defaults come from `edge.settings`."""
    parser = Parser(
        prog="edge-run",
        description="Hides every face in videos, pictures and live streams. No frame is written that was not analysed "
        "and masked.",
        epilog="Exit codes: 0 done, 1 something failed, 64 wrong arguments, 66 input unreadable, 69 a needed part is "
        "missing, 74 writing failed, 75 try again later, 78 configuration, 130 interrupted.",
    )
    add = parser.add_argument
    add("inputs", nargs="+", metavar="INPUT", help="file, folder, rtsp:// address or /dev/video device")
    add("-o", "--output", type=Path, metavar="PATH", help="result file or folder (default: beside the input)")
    add("--overwrite", action="store_true", help="replace results that are there already")
    add("--version", action="version", version=f"edge-run {__version__}")

    _add_detection(parser)

    group = parser.add_argument_group("keeping masks steady")
    add = group.add_argument
    add(
        "--look-ahead",
        type=seconds,
        default=DEFAULTS.track.look_ahead_s,
        metavar="S",
        help="how far the output lags, so that masks start before the first detection (default %(default)s s)",
    )
    add(
        "--hold",
        type=seconds,
        default=DEFAULTS.track.hold_s,
        metavar="S",
        help="how long a mask stays after the last detection (default %(default)s s)",
    )

    group = parser.add_argument_group("hiding faces")
    add = group.add_argument
    add(
        "--replacewith",
        choices=("pixelate", "blur", "solid", "image", "swap", *METHOD_ALIASES),
        default="pixelate",
        help="how a face is hidden (default %(default)s)",
    )
    add(
        "--mask-scale",
        type=positive,
        default=DEFAULTS.mask.mask_scale,
        metavar="X",
        help="size of the mask (default %(default)s)",
    )
    add(
        "--shape",
        choices=("ellipse", "box"),
        default=DEFAULTS.mask.shape,
        help="shape of the mask (default %(default)s)",
    )
    add(
        "--blocks",
        type=natural,
        default=DEFAULTS.mask.blocks,
        metavar="N",
        help="mosaic blocks across the shorter side of a face; fewer hide more (default %(default)s)",
    )
    add("--color", type=color, default=DEFAULTS.mask.color, metavar="RRGGBB", help="for solid (default 000000)")
    add("--replaceimg", type=Path, metavar="FILE", help="picture for --replacewith image")
    add(
        "--zone",
        action="append",
        default=[],
        metavar="KIND:X,Y;X,Y;X,Y",
        help="always: or never: masked polygon, in fractions of the picture; repeatable",
    )
    add("--boxes", action="store_const", const="box", dest="shape", help="the same as --shape box")
    add("--outline", action="store_true", help="draw a line round each mask")

    group = parser.add_argument_group("writing")
    add = group.add_argument
    add("--codec", choices=("h264", "h265"), default=DEFAULTS.record.codec, help="video codec (default %(default)s)")
    add(
        "--quality",
        type=quality,
        default=DEFAULTS.record.quality,
        metavar="CRF",
        help="0 to 51, lower is better (default %(default)g)",
    )
    add("-k", "--keep-audio", action="store_true", help="copy the sound; voices identify people too")
    add("-m", "--keep-metadata", action="store_true", help="keep dates, location and device of the recording")
    add("--sidecar", action="store_true", help="write what was masked where as JSON lines beside the result")

    group = parser.add_argument_group("live streams")
    add = group.add_argument
    add("--duration", type=positive, metavar="S", help="stop after this much video")
    add("--transport", choices=("tcp", "udp"), default="tcp", help="for rtsp (default %(default)s)")
    add(
        "--stall-timeout",
        type=positive,
        default=DEFAULTS.source.stall_timeout_s,
        metavar="S",
        help="give up when nothing arrives for this long (default %(default)s s)",
    )
    add(
        "--credentials",
        type=Path,
        metavar="FILE",
        help="file with user:password for the camera; or set EDGE_RTSP_USER and EDGE_RTSP_PASSWORD",
    )

    group = parser.add_argument_group("feedback")
    add = group.add_argument
    add("--json", action="store_true", help="events as JSON lines on stdout")
    add("-q", "--quiet", action="store_true", help="errors only")
    add("-v", "--verbose", action="store_true", help="show what the native libraries print")
    return parser


def _add_detection(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("finding faces").add_argument
    add(
        "--model", default=DEFAULTS.detect.model, metavar="NAME", help="auto, a name from edge-models list, or an .onnx"
    )
    add("--models-dir", type=Path, metavar="DIR", help="where downloaded models are kept")
    add("-t", "--thresh", type=unit, metavar="SCORE", help="score from which a detection counts (default: the model's)")
    add(
        "--scales",
        type=scales,
        default=(),
        metavar="PX,PX",
        help="longer sides of the detector input (default: by size)",
    )
    add("-s", "--scale", type=size, metavar="WxH", help="a single detector input size on every frame, as deface has it")
    add(
        "--scan-interval",
        type=seconds,
        default=DEFAULTS.detect.scan_interval_s,
        metavar="S",
        help="revisit the larger scales at least this often; 0: on every frame (default %(default)s s)",
    )
    add(
        "--backend",
        choices=("auto", "onnxruntime", "tensorrt"),
        default=DEFAULTS.detect.backend,
        help="what runs the detector (default: TensorRT where edge-build made an engine, else ONNX Runtime)",
    )
    add("--engine-dir", type=Path, metavar="DIR", help="where edge-build put its engines")
    add("--require-gpu", action="store_true", help="fail rather than run the detector on the processor")
    add("--threads", type=natural, default=0, metavar="N", help="parallel detector runs (default: one per processor)")


def job_template(arguments: argparse.Namespace) -> JobTemplate:
    """Arguments as settings. Raises UsageError for combinations that make no sense."""
    method = METHOD_ALIASES.get(arguments.replacewith, arguments.replacewith)
    if method == "image" and arguments.replaceimg is None:
        raise UsageError("--replacewith image needs a picture", "name one with --replaceimg FILE")
    if arguments.replaceimg is not None and not arguments.replaceimg.is_file():
        raise InputError(f"--replaceimg {arguments.replaceimg}: there is no such file")
    if arguments.require_gpu and arguments.backend == "onnxruntime":
        raise UsageError("--require-gpu and --backend onnxruntime exclude each other", "give one of them")
    if arguments.scale and arguments.scales:
        raise UsageError("--scale and --scales exclude each other", "give one of them")
    settings = RunSettings(
        detect=DetectSettings(
            model=arguments.model,
            score_threshold=arguments.thresh,
            scales=(arguments.scale,) if arguments.scale else arguments.scales,
            scan_interval_s=arguments.scan_interval,
            backend=arguments.backend,
            threads=arguments.threads,
            engine_dir=arguments.engine_dir,
            require_gpu=arguments.require_gpu,
        ),
        track=TrackSettings(look_ahead_s=arguments.look_ahead, hold_s=arguments.hold),
        mask=MaskSettings(
            method=method,
            shape=arguments.shape,
            mask_scale=arguments.mask_scale,
            blocks=arguments.blocks,
            color=arguments.color,
            image=arguments.replaceimg,
            zones=zones(arguments.zone),
            outline=arguments.outline,
        ),
        record=RecordSettings(
            codec=arguments.codec,
            quality=arguments.quality,
            keep_audio=arguments.keep_audio,
            keep_metadata=arguments.keep_metadata,
            overwrite=arguments.overwrite,
            sidecar=arguments.sidecar,
        ),
        source=SourceSettings(
            transport=arguments.transport,
            duration_s=arguments.duration,
            stall_timeout_s=arguments.stall_timeout,
        ),
    )
    user, password = credentials(arguments)
    return JobTemplate(settings, arguments.models_dir, user, password)


def zones(texts: Sequence[str]) -> tuple[Zone, ...]:
    """Parse all --zone arguments."""
    if not texts:
        return ()
    from edge.anonymize.zones import parse_zone

    return tuple(parse_zone(text) for text in texts)


def credentials(arguments: argparse.Namespace) -> tuple[str | None, str | None]:
    """User and password for a camera, from a file or the environment; never from the address (P8).

    An address on the command line can be read by every user of the machine with ``ps``.
    """
    for name in filter(is_stream, arguments.inputs):
        if "@" in split_address(name).netloc:
            raise UsageError(
                "the stream's address holds credentials, which every user of this machine can see",
                "take them out and pass --credentials FILE (one line, user:password)",
            )
    if arguments.credentials is None:
        return os.environ.get("EDGE_RTSP_USER"), os.environ.get("EDGE_RTSP_PASSWORD")
    try:
        if not arguments.credentials.is_file():
            raise InputError(f"--credentials {arguments.credentials}: is not a file")
        text = arguments.credentials.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise InputError(f"--credentials {arguments.credentials}: is not text") from None
    user, colon, password = text.partition(":")
    if not colon or "\n" in text:
        raise UsageError(f"--credentials {arguments.credentials}: expected one line, user:password")
    return user, password


def number(text: str, least: float, most: float = math.inf) -> float:
    """A finite number within [least, most], or an argparse error."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not (math.isfinite(value) and least <= value <= most):
        limits = f"from {least:g} to {most:g}" if math.isfinite(most) else f"at least {least:g}"
        raise argparse.ArgumentTypeError(f"{text} is out of range: {limits}")
    return value


def unit(text: str) -> float:
    """A score, 0 to 1."""
    return number(text, 0.001, 1)


def positive(text: str) -> float:
    """Any number above zero."""
    return number(text, 0.001)


def seconds(text: str) -> float:
    """A time of up to ten seconds."""
    return number(text, 0, 10)


def quality(text: str) -> float:
    """A constant rate factor."""
    return number(text, 0, 51)


def natural(text: str) -> int:
    """A whole number from 1 to 256."""
    value = number(text, 1, 256)
    if value != int(value):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(value)


def scales(text: str) -> tuple[int, ...]:
    """Comma-separated longer sides in pixels, ascending."""
    return tuple(sorted({int(number(part, 64, 8192)) for part in text.split(",")}))


def size(text: str) -> int:
    """WxH as deface has it; the longer side counts, the picture's own shape is kept."""
    width, x, height = text.lower().partition("x")
    if not x:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 640x360")
    return int(max(number(width, 64, 8192), number(height, 64, 8192)))


def color(text: str) -> tuple[int, int, int]:
    """Six hexadecimal digits."""
    try:
        red, green, blue = bytes.fromhex(text.removeprefix("#"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a colour such as 0080ff") from None
    return red, green, blue
