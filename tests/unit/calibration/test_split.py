"""Parts without a scene in common."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.face_set import FaceSet, SetPicture, read_face_set
from calibration.likeness import MAX_DISTANCE_BITS
from calibration.split import split
from edge.errors import ConfigError


def picture(number: int, scene: int) -> SetPicture:
    """One of several pictures of a scene: few of the bits of its fingerprint differ."""
    bits = np.random.default_rng(scene).integers(0, 2, 256, np.uint8)
    bits[number % 8] ^= 1
    digest = hashlib.sha256(f"{number}".encode()).hexdigest()
    return SetPicture(Path(f"{number}.jpg"), digest, 64, 48, np.packbits(bits).tobytes())


SCENES = st.lists(st.integers(0, 30), min_size=2, max_size=60).filter(lambda scenes: len(set(scenes)) > 1)


@settings(deadline=None, max_examples=60)
@given(SCENES, st.floats(0.05, 0.6), st.integers(0, 5))
def test_parts_share_no_scene_and_lose_nothing(scenes: list[int], held_out: float, seed: int) -> None:
    whole = FaceSet(tuple(picture(number, scene) for number, scene in enumerate(scenes)), "folder", ("said",))
    parts = split(whole, held_out, seed)
    sides = [{scenes[int(path.stem)] for path in part.files} for part in parts]
    assert not sides[0] & sides[1]
    assert sorted(parts[0].files + parts[1].files) == sorted(whole.files)
    assert all(len(part) and part.kind == "folder" and part.problems == ("said",) for part in parts)
    smallest = min(scenes.count(scene) for scene in sides[1])
    assert len(parts[1]) <= max(held_out * len(whole), smallest)


@settings(deadline=None, max_examples=30)
@given(SCENES, st.randoms(use_true_random=False))
def test_order_and_names_do_not_matter(scenes: list[int], dice: object) -> None:
    pictures = [picture(number, scene) for number, scene in enumerate(scenes)]
    shuffled = [replace(each, path=Path("elsewhere") / each.path) for each in pictures]
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = split(FaceSet(tuple(pictures), "folder")), split(FaceSet(tuple(shuffled), "list"))
    assert [part.sha256 for part in first] == [part.sha256 for part in second]


def test_another_seed_gives_another_part() -> None:
    whole = FaceSet(tuple(picture(number, number) for number in range(50)), "folder")
    assert len({split(whole, 0.2, seed)[1].sha256 for seed in range(8)}) == 8
    assert len(split(whole, 0.2)[1]) == 10


def test_one_scene_cannot_be_split() -> None:
    with pytest.raises(ConfigError, match="all 9 pictures show the same scene"):
        split(FaceSet(tuple(picture(number, 1) for number in range(9)), "folder"))


def test_real_photos(shared_data: Path) -> None:
    whole = read_face_set(shared_data / "photos" / "calibration", limit=120)
    calibration, judged = split(whole, 0.25)
    assert len(judged) == pytest.approx(0.25 * len(whole), abs=3)
    bits = [
        np.array([np.unpackbits(np.frombuffer(each.fingerprint, np.uint8)) for each in part.pictures], np.int16)
        for part in (calibration, judged)
    ]
    distances = np.abs(bits[0][:, None] - bits[1][None]).sum(axis=2)
    assert distances.min() > MAX_DISTANCE_BITS
