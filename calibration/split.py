"""Parts of a set that have no scene in common."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import replace

from calibration.face_set import FaceSet, SetPicture
from calibration.likeness import groups
from edge.errors import ConfigError

HELD_OUT = 0.2


def split(face_set: FaceSet, held_out: float = HELD_OUT, seed: int = 0) -> tuple[FaceSet, FaceSet]:
    """The part to calibrate on, and the part to judge on.

    held_out: share of the pictures to judge on, 0 to 1, as nearly as whole scenes allow without exceeding it; but
    each part has at least one scene. Near-duplicates are on one side (`calibration.likeness.groups`). The same contents
    with the same seed are split alike, whatever the files are called and in whatever order they come.

    Raises ConfigError when all pictures show one scene.
    """
    scenes: dict[int, list[SetPicture]] = defaultdict(list)
    # The order decides which picture names a group, so it must not depend on file names.
    pictures = sorted(face_set.pictures, key=lambda picture: picture.sha256)
    for picture, group in zip(pictures, groups([each.fingerprint for each in pictures]), strict=True):
        scenes[group].append(picture)
    if len(scenes) < 2:
        raise ConfigError(
            f"all {len(pictures)} pictures show the same scene: none can be held out to judge on",
            "add pictures of other scenes",
        )
    drawn = sorted(scenes.values(), key=lambda scene: _draw(scene[0], seed))
    judged: set[str] = set()
    for scene in drawn[1:]:             # the first is for calibration in any case
        if len(judged) + len(scene) <= held_out * len(pictures):
            judged.update(picture.sha256 for picture in scene)
    if not judged:
        judged.update(picture.sha256 for picture in min(drawn[1:], key=len))
    calibration = tuple(picture for picture in face_set.pictures if picture.sha256 not in judged)
    rest = tuple(picture for picture in face_set.pictures if picture.sha256 in judged)
    return replace(face_set, pictures=calibration), replace(face_set, pictures=rest)


def _draw(picture: SetPicture, seed: int) -> str:
    return hashlib.sha256(f"{seed} {picture.sha256}".encode()).hexdigest()
