"""The pictures to calibrate on: found, read once, counted, and told apart from what is no use."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from calibration.default_set import default_pictures
from calibration.likeness import fingerprint, groups, is_blank, luma
from edge.errors import ConfigError, InputError
from edge.inputs import PICTURE_SUFFIXES
from edge.pictures import read_picture
from edge.pictures.header import HeaderError, read_header
from edge.types import Picture

if TYPE_CHECKING:
    from edge.detect.detector import Detector

Kind = Literal["folder", "list", "default"]
Progress = Callable[[int, int], None]       # pictures done, pictures in all

MIN_SCENES = 16
"""Fewer different scenes are refused: percentiles would follow single pictures."""
MIN_FACES = 16
"""Fewer faces are refused: the tensors that only faces excite would hardly be seen."""
WANTED_SCENES = 100
"""Fewer are warned about. 100 to 500 is what INT8 calibration is usually given."""
MIN_FACE_SHARE = 0.5
"""When fewer of the pictures show a face, that is said; some without are welcome, cameras see them most of the day."""
MAX_PICTURE_PX = 50_000_000
"""Larger pictures are left out: decoded, they would take hundreds of megabytes."""

_GIVE = "give a folder, or a text file with one path per line, of 100 to 500 pictures from your own cameras"
_NAMED = 3          # files named in a message


@dataclass(frozen=True, slots=True)
class SetPicture:
    """One picture of a set. sha256: of its file. width_px, height_px: upright. fingerprint: see
    `calibration.likeness`. faces: found by the float detector; None when nobody looked."""

    path: Path
    sha256: str
    width_px: int
    height_px: int
    fingerprint: bytes
    faces: int | None = None


@dataclass(frozen=True, slots=True)
class FaceSet:
    """Pictures that can be used, each different from the others byte by byte.

    kind: ``default`` is the built-in set, which supports a weaker claim. problems: what was left out or is missing,
    for people, one sentence each.
    """

    pictures: tuple[SetPicture, ...]
    kind: Kind
    problems: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """Paths, in a fixed order."""
        return tuple(picture.path for picture in self.pictures)

    @property
    def sha256(self) -> str:
        """Of the contents; file names and order do not matter."""
        digests = sorted(picture.sha256 for picture in self.pictures)
        return hashlib.sha256("".join(digests).encode()).hexdigest()

    @property
    def faces(self) -> int | None:
        """Faces in all pictures, None when nobody looked."""
        counts = [picture.faces for picture in self.pictures if picture.faces is not None]
        return sum(counts) if len(counts) == len(self.pictures) else None

    def __len__(self) -> int:
        return len(self.pictures)


def read_face_set(
    source: Path | None,
    detector: Detector | None = None,
    *,
    limit: int = 500,
    min_scenes: int = MIN_SCENES,
    progress: Progress = lambda done, total: None,
) -> FaceSet:
    """Read and judge a set.

    source: a folder, searched with its subfolders; a text file with one path per line, relative to it, where lines that
    begin with # are comments; None for the built-in set. detector: a float detector, to count faces; without one that
    check is left out. limit: of more pictures, this many that are evenly spread over the sorted paths are taken.

    Left out, counted and said in `problems`: pictures that cannot be read, that are larger than MAX_PICTURE_PX, that
    show nothing, and copies. Said only: fewer scenes than WANTED_SCENES, near-duplicates, few pictures with faces,
    pictures beyond the limit, the built-in set.

    Raises InputError when the source is missing or cannot be read, holds no pictures, or none that can be read;
    ConfigError, with the counts and what is missing, when fewer than `min_scenes` different scenes or fewer than
    MIN_FACES faces are left; UnavailableError when the built-in set cannot be made.
    """
    kind, paths, problems = _find(source)
    if len(paths) > limit:
        problems.append(f"{len(paths)} pictures were found and {limit} of them taken, evenly spread")
        paths = [paths[i * len(paths) // limit] for i in range(limit)]
    reading = _Reading(detector)
    for number, path in enumerate(paths):
        reading.read(path)
        progress(number + 1, len(paths))
    found = FaceSet(tuple(reading.pictures), kind)
    problems += reading.problems()
    where = "the built-in set" if source is None else str(source)
    if reading.unreadable and len(reading.unreadable) == len(paths):
        raise InputError(f"{where}: none of {len(paths)} pictures can be read ({reading.unreadable[0]})", _GIVE)
    problems += _judge(found, where, min_scenes, [*problems])
    return replace(found, problems=tuple(problems))


def _judge(found: FaceSet, where: str, min_scenes: int, problems: Sequence[str]) -> list[str]:
    """What is weak about a set. Raises ConfigError when it is too weak."""
    scenes = len(set(groups([picture.fingerprint for picture in found.pictures])))
    counted = f"{where}: {len(found)} usable pictures of {scenes} different scenes"
    because = f" ({'; '.join(problems)})" if problems else ""
    if scenes < min_scenes:
        raise ConfigError(
            f"{counted}, at least {min_scenes} scenes are needed{because}",
            f"add pictures of {min_scenes - scenes} or more other scenes, better {WANTED_SCENES} in all",
        )
    weak = []
    if scenes < len(found):
        weak.append(f"{len(found) - scenes} pictures are near-duplicates of others")
    if scenes < WANTED_SCENES:
        weak.append(f"{scenes} different scenes are few, {WANTED_SCENES} to 500 are better")
    if found.faces is not None:
        with_faces = sum(bool(picture.faces) for picture in found.pictures)
        if found.faces < MIN_FACES:
            raise ConfigError(
                f"{counted} with {found.faces} faces in {with_faces} of them, at least {MIN_FACES} faces are needed"
                f"{because}",
                "add pictures with people, as your cameras see them",
            )
        if with_faces < MIN_FACE_SHARE * len(found):
            weak.append(f"only {with_faces} of {len(found)} pictures show a face that the float model finds")
    return weak


class _Reading:
    """Reads pictures one after the other and keeps what is to be known about them, not their pixels."""

    def __init__(self, detector: Detector | None) -> None:
        self.pictures: list[SetPicture] = []
        self.unreadable: list[str] = []
        self._detector = detector
        self._blank: list[Path] = []
        self._copies = 0
        self._known: set[str] = set()

    def read(self, path: Path) -> None:
        """Look at one file."""
        try:
            digest = _small_enough(path)
            if digest in self._known:
                self._copies += 1
                return
            picture = read_picture(path).picture
        except InputError as error:
            self.unreadable.append(error.message)
            return
        self._known.add(digest)
        grey = luma(picture)
        if is_blank(grey):
            self._blank.append(path)
            return
        self.pictures.append(
            SetPicture(path, digest, picture.width_px, picture.height_px, fingerprint(grey), self._faces(picture))
        )

    def problems(self) -> list[str]:
        """What was left out."""
        said = []
        if self.unreadable:
            said.append(f"{len(self.unreadable)} pictures cannot be read: {_some(self.unreadable)}")
        if self._blank:
            said.append(f"{len(self._blank)} pictures show nothing: {_some([path.name for path in self._blank])}")
        if self._copies:
            said.append(f"{self._copies} pictures are copies of others, byte by byte")
        return said

    def _faces(self, picture: Picture) -> int | None:
        detector = self._detector
        if detector is None:
            return None
        scales = detector.scales_for(picture.width_px, picture.height_px)
        return len(detector.detect(picture, scales, detector.score_threshold))


def _small_enough(path: Path) -> str:
    """Hash of a file. Raises InputError when it is missing, no picture, or too large to be decoded."""
    try:
        data = path.read_bytes()
        header = read_header(data)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except HeaderError as error:
        raise InputError(f"{path} {error}") from error
    if header.width_px * header.height_px > MAX_PICTURE_PX:
        raise InputError(f"{path} has more than {MAX_PICTURE_PX // 1_000_000} million pixels")
    return hashlib.sha256(data).hexdigest()


def _find(source: Path | None) -> tuple[Kind, list[Path], list[str]]:
    """What the source is, the pictures that it names, and what is to be said about that."""
    if source is None:
        say = (
            "this is the built-in set, of three people in made-up scenes: ranges fit your cameras less well, and the "
            f"claim in the manifest is weaker; {_GIVE}"
        )
        return "default", list(default_pictures()), [say]
    try:
        if source.is_dir():
            return "folder", *_in_folder(source)
        if source.suffix.lower() in PICTURE_SUFFIXES:
            raise InputError(f"{source}: a single picture, not a set", _GIVE)
        return "list", *_in_list(source)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{source}: {error.strerror or error}", _GIVE) from error


def _in_folder(folder: Path) -> tuple[list[Path], list[str]]:
    closed: list[str] = []
    paths, others = [], Counter[str]()
    for path in _walk(folder, folder, closed):
        if path.suffix.lower() in PICTURE_SUFFIXES:
            paths.append(path)
        else:
            others[path.suffix.lower() or "no suffix"] += 1
    if not paths:
        what = f"{sum(others.values())} other files ({', '.join(sorted(others))})" if others else "no files"
        shut = f"; {len(closed)} folders cannot be opened: {_some(closed)}" if closed else ""
        raise InputError(f"{folder}: holds no pictures, {what}{shut}", _GIVE)
    said = [f"{len(closed)} folders cannot be opened: {_some(closed)}"] if closed else []
    return sorted(paths), said


def _walk(folder: Path, top: Path, closed: list[str]) -> Iterator[Path]:
    """Files below, hidden ones and links to folders left out."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        if folder == top:
            raise
        closed.append(f"{folder}: {error.strerror}")
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry, top, closed)
        elif not entry.is_dir():
            yield entry


def _in_list(path: Path) -> tuple[list[Path], list[str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: neither a folder nor a text file", _GIVE) from error
    names = [line.strip() for line in lines]
    paths = [path.parent / name for name in names if name and not name.startswith("#")]
    if not paths:
        raise InputError(f"{path}: names no pictures", _GIVE)
    return paths, []


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts[:_NAMED]) + (" …" if len(texts) > _NAMED else "")
