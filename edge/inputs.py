"""From what the user named to jobs: which files, of what kind, and where each result goes."""

from __future__ import annotations

import glob
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from edge.errors import InputError, StorageError, UsageError
from edge.messages import Job
from edge.settings import RunSettings
from edge.storage import Recovered, recover

# fmt: off
VIDEO_SUFFIXES = frozenset({
    ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".ts", ".mts", ".m2ts", ".mpg", ".mpeg", ".gif", ".h264", ".264",
    ".h265", ".265", ".hevc", ".3gp", ".wmv", ".flv", ".ogv", ".mjpeg", ".mjpg", ".y4m", ".vob",
})
# fmt: on
PICTURE_SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"])
STREAM_SCHEMES = ("rtsp://", "rtsps://")
# Marks our own results, so that a folder run does not anonymise them again.
RESULT_SUFFIX = "_anonymized"
STAMP = re.compile(r"(.+)_\d{8}T\d{6}Z")


@dataclass(slots=True)
class Plan:
    """Jobs in order; inputs that need none, with the reason; how many other files lay in the folders."""

    jobs: list[Job] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    ignored: int = 0


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """What all jobs of a run have in common."""

    settings: RunSettings
    models_dir: Path | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def job(self, kind: str, source: str, output: Path) -> Job:
        """The job for one input."""
        return Job(kind, source, output, self.settings, self.models_dir, self.user, self.password)


def plan_jobs(inputs: Sequence[str], output: Path | None, template: JobTemplate) -> Plan:
    """Decide what to do for `inputs`: files, folders, ``rtsp://`` addresses and ``/dev/video*`` devices.

    output: None puts each result beside its input; a path with a suffix names the one result; any other is a folder.
    Raises InputError for an input that is not there, UsageError for a combination that makes no sense, StorageError
    when the single result already exists.
    """
    plan = Plan()
    single = output is not None and output.suffix != "" and not output.is_dir()
    if single and (len(inputs) > 1 or Path(inputs[0]).is_dir()):
        raise UsageError(f"--output {output} names a file, but there are several inputs", "name a folder")
    alone = len(inputs) == 1 and not Path(inputs[0]).is_dir()
    taken: set[Path] = set()
    for name in inputs:
        for kind, source, wanted in _targets(name, output, single, plan):
            target = _unique(wanted, source, taken)
            taken.add(target)
            if _is_needed(kind, source, target, template.settings.record.overwrite, alone, plan):
                plan.jobs.append(template.job(kind, source, target))
    return plan


def _targets(name: str, output: Path | None, single: bool, plan: Plan) -> Iterator[tuple[str, str, Path]]:
    """(kind, source, result path) for everything that one argument stands for."""
    if is_stream(name):
        if single and output is not None:
            yield "stream", name, _as_mp4(output)
        else:
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            yield "stream", name, (output or Path()) / f"{_stream_name(name)}_{stamp}.mp4"
        return
    path = Path(name)
    if path.is_dir():
        base = output or path.with_name(path.resolve().name + RESULT_SUFFIX)
        if base.resolve() == path.resolve():
            raise UsageError(f"{name}: the results would lie among the inputs", "choose another --output")
        for file in _media_files(path, plan, exclude=base):
            kind = kind_of(file)
            yield kind, str(file), base / file.relative_to(path).with_suffix(result_suffix(file, kind))
        return
    if not path.exists():
        raise InputError(f"{name}: there is no such file", "check the name")
    kind = kind_of(path)
    suffix = result_suffix(path, kind)
    if output is None:
        yield kind, name, path.with_name(path.stem + RESULT_SUFFIX + suffix)
    elif single:
        yield kind, name, _as_mp4(output) if kind == "video" else _as_picture(output, suffix)
    else:
        yield kind, name, output / (path.stem + suffix)


def recover_leftovers(job: Job) -> list[Recovered]:
    """Recover, or set aside, what an earlier run of this job left unfinished; nothing else in that folder."""
    stem, suffix = glob.escape(job.output.stem), glob.escape(job.output.suffix)
    patterns = [f"{stem}{suffix}", f"{stem}_[0-9][0-9][0-9]{suffix}"]
    if job.kind == "stream" and (stamped := STAMP.fullmatch(job.output.stem)):
        patterns.append(f"{glob.escape(stamped[1])}_????????T??????Z*{suffix}")
    return [found for pattern in patterns for found in recover(job.output.parent, pattern)]


def is_stream(name: str) -> bool:
    """Whether an input is live: an RTSP address or a camera device."""
    return name.lower().startswith(STREAM_SCHEMES) or name.startswith("/dev/video")


def split_address(name: str) -> SplitResult:
    """The parts of a stream's address. Raises UsageError, which does not repeat it: it may hold a password."""
    try:
        parts = urlsplit(name)
        _ = parts.port, parts.hostname
    except ValueError:
        raise UsageError("the stream's address cannot be read", "write rtsp://HOST[:PORT]/PATH") from None
    return parts


def kind_of(path: Path) -> str:
    """``picture`` or ``video``, by suffix; anything unknown is tried as a video."""
    return "picture" if path.suffix.lower() in PICTURE_SUFFIXES else "video"


def result_suffix(path: Path, kind: str) -> str:
    """Pictures keep their format; videos become MP4."""
    return path.suffix if kind == "picture" else ".mp4"


def _media_files(folder: Path, plan: Plan, exclude: Path) -> Iterator[Path]:
    excluded = exclude.resolve() if folder.resolve() in exclude.resolve().parents else None
    for file in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if hidden or not file.is_file() or (excluded and excluded in file.resolve().parents):
            continue
        if file.suffix.lower() in VIDEO_SUFFIXES | PICTURE_SUFFIXES and not file.stem.endswith(RESULT_SUFFIX):
            yield file
        else:
            plan.ignored += 1


def _is_needed(kind: str, source: str, target: Path, overwrite: bool, alone: bool, plan: Plan) -> bool:
    """False when the result is there already; raises when the user should know rather than find it skipped."""
    try:
        if not target.exists():
            return True
    except OSError:
        return True         # a name that is too long: its own job says so, and the others run
    if kind != "stream" and target.samefile(source):
        raise UsageError(f"{source}: the result would overwrite its own input", "choose another --output")
    if overwrite:
        return True
    if alone:
        raise StorageError(f"{target} is there already", "choose another --output, or pass --overwrite")
    plan.skipped.append((source, f"{target} is there already"))
    return False


def _unique(target: Path, source: str, taken: set[Path]) -> Path:
    """Keep a.mov and a.mkv apart when both become a.mp4 in one folder: the second gets its whole name."""
    return target if target not in taken else target.with_name(Path(source).name + target.suffix)


def _as_mp4(output: Path) -> Path:
    if output.suffix.lower() != ".mp4":
        raise UsageError(f"--output {output}: videos are written as MP4", f"use {output.with_suffix('.mp4').name}")
    return output


def _as_picture(output: Path, suffix: str) -> Path:
    if output.suffix.lower() not in PICTURE_SUFFIXES:
        raise UsageError(f"--output {output}: not a picture format that can be written", f"use {suffix}")
    return output


def _stream_name(name: str) -> str:
    """A file name for a stream without anything secret or unsafe in it."""
    text = split_address(name).hostname or Path(name).name
    return "".join(c if c.isalnum() or c in "-." else "_" for c in text)
