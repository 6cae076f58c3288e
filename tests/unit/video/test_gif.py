"""GIF files are cut into pictures with the times that their delays mean."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from edge.errors import InputError
from edge.video.gif import is_gif, split_gif
from tests.unit.video.clips import read_all

HEADER = b"GIF89a" + struct.pack("<HHBBB", 2, 2, 0x80, 0, 0) + bytes(6)          # two colours
PIXELS = b"\x02\x03\x44\x02\x05\x00"                                              # LZW: 2 x 2 pixels of colour 0 and 1


def picture(delay_cs: int) -> bytes:
    control = b"\x21\xf9\x04\x00" + struct.pack("<H", delay_cs) + b"\x00\x00"
    return control + b"\x2c" + struct.pack("<HHHHB", 0, 0, 2, 2, 0) + PIXELS


COMMENT = b"\x21\xfe\x05hello\x00"


@pytest.mark.parametrize(("body", "durations_ms", "complete"), [
    (picture(8) + b"\x3b", [80], True),
    (picture(8) + COMMENT + picture(9) + b"\x3b", [80, 90], True),
    (picture(0) + picture(1) + picture(2) + b"\x3b", [100, 100, 20], True),
    (picture(8) + picture(9), [80, 90], False),
    (picture(8) + picture(9)[:-1], [80], False),
    (picture(8) + b"\x00garbage", [80], False),
])  # fmt: skip
def test_pictures_and_their_times(tmp_path: Path, body: bytes, durations_ms: list[int], complete: bool) -> None:
    path = tmp_path / "a.gif"
    path.write_bytes(HEADER + body)
    gif = split_gif(path)
    assert [packet.duration_ns // 1_000_000 for packet in gif.packets] == durations_ms
    starts_ms = [sum(durations_ms[:i]) for i in range(len(durations_ms))]
    assert [packet.pts_ns // 1_000_000 for packet in gif.packets] == starts_ms
    assert gif.complete is complete
    assert (gif.width_px, gif.height_px) == (2, 2)
    assert gif.packets[0].data.startswith(b"GIF89a")
    assert b"".join(packet.data for packet in gif.packets) in path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"GIF89a", HEADER, HEADER + b"\x3b", HEADER + picture(8)[:-1]])
def test_without_a_picture_it_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.gif"
    path.write_bytes(content)
    with pytest.raises(InputError, match="no whole picture"):
        split_gif(path)


def test_other_files_are_not_gif(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x89PNG")
    assert not is_gif(tmp_path / "a")
    assert not is_gif(tmp_path / "none")


def test_a_real_file_ends_and_keeps_its_delays(shared_data: Path) -> None:
    frames = read_all(shared_data / "videos/real/people_01.gif")
    assert len(frames) == 23
    assert frames[0][1:] == (0, 80_000_000)
    assert frames[-1][1] + frames[-1][2] == 1_910_000_000
