"""Files have their final name only when they are complete, and nothing is ever overwritten unasked (P3)."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from edge.errors import StorageError
from edge.storage import create_part, part_path, publish, recover, whole_fragments_bytes


def box(kind: str, payload: bytes = b"") -> bytes:
    return struct.pack(">I4s", 8 + len(payload), kind.encode()) + payload


HEAD = box("ftyp", b"mp42") + box("free")
FIRST = box("mdat", b"x" * 100) + box("moov", b"index")
LATER = box("free") + box("mdat", b"y" * 50) + box("moof", b"more")
CUT_OFF = box("free") + struct.pack(">I4s", 0, b"mdat") + b"unfinished"


def write_part(final: Path, content: bytes) -> Path:
    descriptor = create_part(final)
    os.write(descriptor, content)
    os.close(descriptor)
    return part_path(final)


def test_publishing_gives_the_final_name(tmp_path: Path) -> None:
    final = tmp_path / "clip.mp4"
    part = write_part(final, b"content")
    assert not final.exists()
    publish(part, final)
    assert final.read_bytes() == b"content"
    assert [each.name for each in tmp_path.iterdir()] == ["clip.mp4"]


def test_publishing_replaces_nothing_unless_asked(tmp_path: Path) -> None:
    final = tmp_path / "clip.mp4"
    part = write_part(final, b"new")
    final.write_bytes(b"old")
    with pytest.raises(StorageError, match="exists already"):
        publish(part, final)
    assert (final.read_bytes(), part.read_bytes()) == (b"old", b"new")
    publish(part, final, overwrite=True)
    assert final.read_bytes() == b"new"
    assert not part.exists()


def test_a_dangling_link_is_not_overwritten_either(tmp_path: Path) -> None:
    final = tmp_path / "clip.mp4"
    final.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="exists already"):
        create_part(final)


def test_a_part_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    part_path(tmp_path / "clip.mp4").symlink_to(victim)
    with pytest.raises(StorageError):
        create_part(tmp_path / "clip.mp4")
    assert victim.read_bytes() == b"precious"


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such directory"):
        create_part(tmp_path / "none" / "clip.mp4")


def test_one_name_has_one_writer(tmp_path: Path) -> None:
    final = tmp_path / "clip.mp4"
    descriptor = create_part(final)
    try:
        with pytest.raises(StorageError, match="another process is writing"):
            create_part(final)
    finally:
        os.close(descriptor)


def test_a_part_of_a_dead_writer_is_set_aside(tmp_path: Path) -> None:
    final = tmp_path / "clip.mp4"
    write_part(final, HEAD + FIRST)
    os.close(create_part(final))
    assert (tmp_path / "clip_recovered.mp4").read_bytes() == HEAD + FIRST


@pytest.mark.parametrize(("content", "playable"), [
    (b"", 0),
    (b"text", 0),
    (HEAD, 0),
    (HEAD + box("mdat", b"x" * 100), 0),
    (HEAD + FIRST, len(HEAD + FIRST)),
    (HEAD + FIRST[:-1], 0),
    (HEAD + FIRST + LATER, len(HEAD + FIRST + LATER)),
    (HEAD + FIRST + LATER[:-1], len(HEAD + FIRST)),
    (HEAD + FIRST + LATER + CUT_OFF, len(HEAD + FIRST + LATER)),
    (HEAD + FIRST + box("free") + box("mdat", b"no index"), len(HEAD + FIRST)),
    (HEAD + struct.pack(">I4sQ", 1, b"mdat", 26) + b"0123456789" + box("moov"), len(HEAD) + 34),
    (HEAD + struct.pack(">I4s", 3, b"moov"), 0),
])  # fmt: skip
def test_what_of_a_file_can_be_played(tmp_path: Path, content: bytes, playable: int) -> None:
    path = tmp_path / "clip"
    path.write_bytes(content)
    with path.open("rb") as file:
        assert whole_fragments_bytes(file) == playable


def test_recovery_names_every_part(tmp_path: Path) -> None:
    write_part(tmp_path / "good.mp4", HEAD + FIRST + LATER + CUT_OFF)
    write_part(tmp_path / "empty.mp4", b"")
    write_part(tmp_path / "picture.png", b"\x89PNG\r\n\x1a\nhalf")
    (tmp_path / "good_recovered.mp4").write_bytes(b"of an earlier crash")
    (tmp_path / "finished.mp4").write_bytes(b"whole")
    found = {each.path.name: each.outcome for each in recover(tmp_path)}
    assert found == {"good_recovered_2.mp4": "playable", "empty.mp4.part.broken": "broken",
                     "picture.png.part.broken": "broken"}  # fmt: skip
    assert (tmp_path / "good_recovered_2.mp4").read_bytes() == HEAD + FIRST + LATER
    assert (tmp_path / "finished.mp4").read_bytes() == b"whole"
    assert recover(tmp_path) == []


def test_recovery_leaves_a_live_writer_alone(tmp_path: Path) -> None:
    final = tmp_path / "clip.mp4"
    program = (
        "import sys; from pathlib import Path; from edge.storage import create_part;"
        "create_part(Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(final)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"locked\n"
        assert recover(tmp_path) == []
        assert part_path(final).exists()
        writer.kill()
    assert [each.outcome for each in recover(tmp_path)] == ["broken"]


@pytest.mark.parametrize("name", ["clip.mp4", "clip.mp4.jsonl", "picture.png"])
def test_a_part_of_another_program_is_not_touched(tmp_path: Path, name: str) -> None:
    final = tmp_path / name
    part_path(final).write_bytes(b"what a browser has of its download")
    with pytest.raises(StorageError, match="another program's"):
        create_part(final)
    assert recover(tmp_path) == []
    assert [each.name for each in tmp_path.iterdir()] == [part_path(final).name]
    assert part_path(final).read_bytes() == b"what a browser has of its download"


def test_a_part_that_is_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(part_path(tmp_path / "clip.mp4"))
    with pytest.raises(StorageError):
        create_part(tmp_path / "clip.mp4")
    assert recover(tmp_path) == []


@pytest.mark.parametrize("replaced", [True, False])
def test_the_lock_is_on_the_file_that_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    """Another process may set the `.part` aside between its creation and the lock on it."""
    final, flock = tmp_path / "clip.mp4", fcntl.flock
    times: list[int] = []

    def interrupted(descriptor: int, operation: int) -> None:
        if not times:
            times.append(1)
            part_path(final).unlink()
            if replaced:
                part_path(final).write_bytes(b"")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", interrupted)
    descriptor = create_part(final)
    try:
        assert os.path.samestat(os.fstat(descriptor), part_path(final).stat())
    finally:
        os.close(descriptor)
