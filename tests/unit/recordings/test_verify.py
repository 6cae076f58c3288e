"""Verification finds what was changed, taken, added or swapped, and nothing else; hostile files stop nobody."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from edge.recordings.chain import Chain
from edge.recordings.index import Index
from edge.recordings.names import sidecar_of, split_name
from edge.recordings.recovery import recover_camera
from edge.recordings.verify import verify
from tests.unit.recordings.archive import NOW_S, add_segment, kept, names

Damage = Callable[[list[Path]], object]


def flip(path: Path, at: int = 100) -> None:
    """Change one bit."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def swap(one: Path, other: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


def take(segment: Path) -> None:
    segment.unlink()
    sidecar_of(segment).unlink()


def retell(segment: Path, **fields: object) -> None:
    """Change a sidecar so that it still fits its segment."""
    sidecar = sidecar_of(segment)
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | fields, indent=1))


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda files: None, []),
        (lambda files: flip(files[2]), [("modified", 2)]),
        (lambda files: flip(files[2], -1), [("modified", 2)]),
        (lambda files: os.truncate(files[0], 999), [("modified", 0)]),
        (lambda files: files[1].write_bytes(files[1].read_bytes() + b"x"), [("modified", 1)]),
        (lambda files: swap(files[1], files[2]), [("modified", 1), ("modified", 2)]),
        (lambda files: files[2].unlink(), [("missing", 2)]),
        (lambda files: sidecar_of(files[2]).unlink(), [("missing", 3), ("extra", 2)]),
        (lambda files: swap(sidecar_of(files[1]), sidecar_of(files[2])), [("modified", 1), ("modified", 2)]),
        (lambda files: take(files[2]), [("missing", 3)]),
        (lambda files: take(files[0]), [("missing", 1)]),
        (lambda files: take(files[4]), [("missing", 4)]),
        (lambda files: retell(files[2], faces=0), [("chain", 3)]),
        (lambda files: retell(files[4], faces=0), [("chain", 4)]),
        (lambda files: retell(files[2], camera="yard"), [("extra", 2), ("chain", 3)]),
        (lambda files: retell(files[2], sequence=2), [("chain", 2), ("chain", 2), ("missing", 3)]),
        (lambda files: retell(files[2], schema=7), [("unreadable", 2), ("missing", 3)]),
        (lambda files: flip(sidecar_of(files[2]), 0), [("unreadable", 2), ("missing", 3)]),
        (lambda files: files[2].with_name("holiday.mp4").touch(), [("extra", "holiday.mp4")]),
        (lambda files: (files[2].unlink(), files[2].mkdir()), [("unreadable", 2)]),
        (lambda files: (files[2].unlink(), os.mkfifo(files[2])), [("unreadable", 2)]),
        (lambda files: (files[2].rename(files[2].with_name("x")), files[2].symlink_to("x")),
         [("unreadable", 2), ("extra", "x")]),
    ],
)  # fmt: skip
def test_what_is_found(tmp_path: Path, damage: Damage, expected: list[tuple[str, int | str]]) -> None:
    files = [add_segment(tmp_path, "door", NOW_S + 60 * number) for number in range(5)]
    damage(files)
    found = [(finding.kind, finding.path) for finding in verify(tmp_path)]
    by_name = {path.stem: number for number, path in enumerate(files)}
    assert [(kind, by_name.get(path.stem, path.name)) for kind, path in found] == expected


def test_a_chain_whose_own_file_is_lost_goes_on(tmp_path: Path) -> None:
    for number in range(3):
        add_segment(tmp_path, "door", NOW_S + 60 * number)
    for content in (None, b"", b"\0" * 100, b"[" * 100_000, b'{"previous": 1}'):
        state = tmp_path / "door" / "chain.json"
        state.unlink() if content is None else state.write_bytes(content)
        assert verify(tmp_path) == []
        add_segment(tmp_path, "door", NOW_S + 600 + len(names(tmp_path)))
        assert verify(tmp_path) == []
    head = Chain(tmp_path / "door").head()
    assert head is not None
    assert head.sequence == 8


HOSTILE = [
    "door_99999999T999999Z", "door_20260230T000000Z", "door_00000101T000000Z", "door_2026\u0660101T000000Z",
    "door_20260101T000000Z_99999999999999999999", "door_20260101T000000Z\n", "door_20260101T000000Z_recovered_x",
    "../door_20260101T000000Z", "yard_20260101T000000Z", "door_20260101T000000z", "", "door_20260101T000000Z ",
]  # fmt: skip


@pytest.mark.parametrize("stem", HOSTILE)
def test_names_that_are_not_ours(stem: str) -> None:
    assert split_name("door", f"{stem}.mp4") is None


def sidecars() -> dict[str, bytes]:
    """What a sidecar may be, that is none."""
    deep = b"[" * 100_000
    told = {"schema": 1, "sequence": 1, "camera": "door", "segment": {"name": "%s.mp4"}, "end_utc": "%s"}
    odd_ends = ["", "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+23:59", "1e400", "2026-01-01T00:00:00"]
    return {
        "empty": b"", "zeros": bytes(5000), "no text": b"\xff\xfe", "deep": deep, "a list": b"[1]", "null": b"null",
        "long number": b'{"schema": 1, "sequence": ' + b"9" * 10_000 + b"}", "large": b" " * (2 << 20) + b"{}",
        "deep within": b'{"schema": 1, "sequence": 1, "segment": ' + deep + b"}",
        **{f"ends at {end}": json.dumps(told | {"end_utc": end}).encode() for end in odd_ends},
        "ends at null": json.dumps(told | {"end_utc": None}).encode(),
        "odd segment": json.dumps(told | {"segment": [1]}).encode(),
        "odd previous": json.dumps(told | {"previous": 3}).encode(),
    }  # fmt: skip


def test_hostile_files_stop_nobody(tmp_path: Path) -> None:
    """Odd names and sidecars lie among old segments: those go, the others do not, and no round ends early."""
    (tmp_path / ".edge-recordings").touch()
    old = [add_segment(tmp_path, "door", NOW_S - 9 * 86400 + 60 * number) for number in range(3)]
    new = add_segment(tmp_path, "yard", NOW_S)
    day = old[0].parent
    for stem in HOSTILE:
        if stem and "/" not in stem:
            for ending in (".mp4", ".json", ".mp4.part", ".json.part"):
                (day / (stem + ending)).write_bytes(b"\0\0\0\x20ftypmp42")
    for number, content in enumerate(sidecars().values()):
        stem = f"door_20200101T0000{number:02}Z"
        (day / f"{stem}.mp4").write_bytes(b"x")
        (day / f"{stem}.json").write_bytes(content.replace(b"%s", stem.encode()))
    os.mkfifo(day / "door_20200102T000000Z.json")
    (day / "door_20200102T000000Z.mp4").touch()
    (day / "door_20200102T000001Z.json").symlink_to("/dev/zero")
    (day / "door_20200102T000001Z.mp4").touch()
    (day / os.fsdecode(b"\xff\xfe.mp4")).mkdir()
    (tmp_path / os.fsdecode(b"\xff")).mkdir()
    (tmp_path / "door" / "2026-99-99").mkdir()
    (tmp_path / "a\nb").mkdir()
    recover_camera(tmp_path / "door")
    keeper = kept(tmp_path, max_age_s=86400.0)
    keeper.rounds(2)
    assert keeper.keeper.report().state == "ok"
    assert not any(path.exists() for path in old)
    assert new.exists()
    assert verify(tmp_path)         # tells of them, and ends
    index = Index(tmp_path)
    list(index.refresh())
    assert sorted(index.cameras) == ["door", "yard"]
