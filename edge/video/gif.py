"""Animated GIF cut into pictures for the decoder.

GStreamer 1.22's own way, avdemux_gif, never ends: its reader answers 0 at the end of a file, which libavformat 59 takes
as "try again". Structure and defaults: GIF89a specification; delays under 20 ms mean 100 ms, as browsers and
ffmpeg have it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from edge.errors import InputError

MAX_BYTES = 512 << 20
_SHORTEST_DELAY_CS, _DEFAULT_DELAY_CS = 2, 10
_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_GRAPHIC_CONTROL = 0xF9


@dataclass(frozen=True, slots=True)
class GifPacket:
    """One picture as the decoder wants it; the first one starts with the file's header. Times in nanoseconds."""

    data: bytes
    pts_ns: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Gif:
    """A whole file. complete: it ended with its trailer."""

    width_px: int
    height_px: int
    packets: tuple[GifPacket, ...]
    complete: bool

    @property
    def duration_ns(self) -> int:
        """Of all pictures together."""
        return self.packets[-1].pts_ns + self.packets[-1].duration_ns if self.packets else 0


def is_gif(path: Path) -> bool:
    """Whether the file starts like a GIF."""
    try:
        with path.open("rb") as file:
            return file.read(6) in (b"GIF87a", b"GIF89a")
    except OSError:
        return False


def split_gif(path: Path) -> Gif:
    """Read a GIF file. Raises InputError without a single whole picture in it."""
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"{path.name}: larger than {MAX_BYTES >> 20} MB, which GIF files are not read beyond")
    data = path.read_bytes()
    packets: list[GifPacket] = []
    complete = False
    start = pts_ns = 0
    delay_cs = _DEFAULT_DELAY_CS
    try:
        width, height, flags = struct.unpack_from("<HHB", data, 6)
        at = 13 + _table_bytes(flags)
        while True:
            kind = data[at]
            if kind == _TRAILER:
                complete = True
                break
            if kind == _EXTENSION:
                if data[at + 1] == _GRAPHIC_CONTROL:
                    delay_cs = struct.unpack_from("<H", data, at + 4)[0]
                    delay_cs = delay_cs if delay_cs >= _SHORTEST_DELAY_CS else _DEFAULT_DELAY_CS
                at = _after_blocks(data, at + 2)
            elif kind == _IMAGE:
                at = _after_blocks(data, at + 10 + _table_bytes(data[at + 9]) + 1)
                packets.append(GifPacket(data[start:at], pts_ns, delay_cs * 10_000_000))
                start, pts_ns = at, pts_ns + delay_cs * 10_000_000
            else:
                break
    except (IndexError, struct.error):
        pass                                            # cut off: what came before counts
    if not packets:
        raise InputError(f"{path.name}: no whole picture in this GIF")
    return Gif(width, height, tuple(packets), complete)


def _table_bytes(flags: int) -> int:
    """Size of a colour table, by the packed field that announces it."""
    return int(3 << ((flags & 7) + 1)) if flags & 0x80 else 0


def _after_blocks(data: bytes, at: int) -> int:
    """The position behind a chain of sub-blocks. Raises IndexError where it is cut off."""
    while data[at]:
        at += data[at] + 1
    return at + 1
