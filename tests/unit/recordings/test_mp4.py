"""Frames and durations from an index, and no index that is damaged or hostile does more than a ValueError."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path

import pytest

from edge.recordings.mp4 import Length, length_of
from edge.recordings.recovery import orphans
from edge.storage import whole_fragments_bytes
from tests.unit.recordings.cameras import FPS, camera, feed, segments, wait_until

TAGS = (b"moov", b"moof", b"trun", b"stts", b"tfhd", b"mdhd", b"trex", b"hdlr")


def box(kind: bytes, content: bytes = b"") -> bytes:
    return struct.pack(">I4s", 8 + len(content), kind) + content


def test_finished_and_unfinished_files(tmp_path: Path) -> None:
    """Also with every value in their indices changed."""
    with feed(camera(tmp_path, 600)) as door:
        door.frames(FPS)
        door.recorder.end_segment()
        wait_until(lambda: bool(segments(tmp_path)))
        door.frames(2 * FPS, epoch=1)
        (part,) = orphans(tmp_path / "door")
        wait_until(lambda: whole_fragments_bytes(io.BytesIO(part.read_bytes())) > 0)
        unfinished = part.read_bytes()
    finished = segments(tmp_path)[0].read_bytes()
    assert length_of(io.BytesIO(finished)) == Length(FPS, 1.0)
    length = length_of(io.BytesIO(unfinished))
    assert length.frames >= FPS
    assert length.duration_s == pytest.approx(length.frames / FPS)
    chance = random.Random(4)
    for _ in range(1000):
        data = bytearray(chance.choice((finished, unfinished)))
        for _ in range(chance.randrange(1, 5)):
            at = max(0, data.find(chance.choice(TAGS)) - 8 + chance.randrange(60))
            data[at % len(data)] = chance.choice((0, 255, chance.randrange(256)))
        assert whole_fragments_bytes(io.BytesIO(data)) <= len(data)
        try:
            length_of(io.BytesIO(data))
        except ValueError:
            continue


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0" * 1000, b"\xff" * 1000, box(b"moov"), box(b"ftyp") + box(b"mdat"),
        b"".join(struct.pack(">I4s", 8 * (20_000 - depth), b"moov") for depth in range(20_000)),
        box(b"moov", box(b"stts", struct.pack(">II", 0, 0xFFFFFFFF))),
        box(b"moof", box(b"trun", struct.pack(">II", 0x100, 0xFFFFFFFF))),
        struct.pack(">I4sQ", 1, b"moov", 1 << 62),
    ],
)  # fmt: skip
def test_no_index(data: bytes) -> None:
    with pytest.raises(ValueError, match="index"):
        length_of(io.BytesIO(data))
