"""How many frames an MP4 file holds, and how long they last, from its index boxes (ISO/IEC 14496-12).

Reads what `edge.video.segment` writes: one video track; a `moov` with a sample table and, while the file is being
written, fragments (`moof`) after it. Audio is left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

MAX_INDEX_BYTES = 64 << 20
_CONTAINERS = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf", b"mvex")


@dataclass(frozen=True, slots=True)
class Length:
    """Frames and their duration in seconds."""

    frames: int
    duration_s: float


def length_of(file: BinaryIO) -> Length:
    """Count what can be played. Raises ValueError where the file is no such MP4."""
    counter = _Counter()
    try:
        for kind, offset, size in _boxes(file):
            if kind in (b"moov", b"moof"):
                if size > MAX_INDEX_BYTES:
                    raise ValueError(f"an index of {size} bytes")
                file.seek(offset)
                counter.read(memoryview(file.read(size)))
    except (struct.error, IndexError, RecursionError) as error:
        raise ValueError(f"damaged index ({error})") from None
    if not counter.timescale:
        raise ValueError("no index")
    return Length(counter.frames, counter.ticks / counter.timescale)


def _boxes(file: BinaryIO) -> Iterator[tuple[bytes, int, int]]:
    """Type, offset and size of the contents of each whole top-level box."""
    total, at = file.seek(0, 2), 0
    while at + 8 <= total:
        file.seek(at)
        head = file.read(16)
        size, kind = struct.unpack(">I4s", head[:8])
        start = 8
        if size == 1 and len(head) == 16:
            size, start = struct.unpack(">Q", head[8:])[0], 16
        if size < start or at + size > total:
            return
        yield kind, at + start, size - start
        at += size


class _Counter:
    def __init__(self) -> None:
        self.frames, self.ticks, self.timescale = 0, 0, 0
        self._default_ticks = self._fragment_ticks = 0      # of a sample, where a run does not say
        self._timescale = 0
        self._is_video = False

    def read(self, data: memoryview) -> None:
        """Add up one index; `data` is the contents of its box."""
        at = 0
        while at + 8 <= len(data):
            size, kind = struct.unpack_from(">I4s", data, at)
            if size < 8 or at + size > len(data):
                raise ValueError("damaged index")
            inner = data[at + 8 : at + size]
            if kind in _CONTAINERS:
                self.read(inner)
            else:
                self._read_leaf(kind, inner)
            at += size

    def _read_leaf(self, kind: bytes, data: memoryview) -> None:
        if kind == b"mdhd":
            self._timescale = struct.unpack_from(">I", data, 20 if data[0] else 12)[0]
        elif kind == b"hdlr":
            self._is_video = bytes(data[8:12]) == b"vide"
            if self._is_video:
                self.timescale = self._timescale
        elif kind == b"stts" and self._is_video:
            for index in range(struct.unpack_from(">I", data, 4)[0]):
                count, ticks = struct.unpack_from(">II", data, 8 + 8 * index)
                self.frames += count
                self.ticks += count * ticks
        elif kind == b"trex":
            self._default_ticks = struct.unpack_from(">I", data, 12)[0]
        elif kind == b"tfhd":
            self._read_fragment_head(data)
        elif kind == b"trun":
            self._read_run(data)

    def _read_fragment_head(self, data: memoryview) -> None:
        flags, at = struct.unpack_from(">I", data)[0] & 0xFFFFFF, 8
        at += 8 * bool(flags & 0x1) + 4 * bool(flags & 0x2)     # base data offset, sample description
        self._fragment_ticks = struct.unpack_from(">I", data, at)[0] if flags & 0x8 else self._default_ticks

    def _read_run(self, data: memoryview) -> None:
        word, count = struct.unpack_from(">II", data)
        flags, at = word & 0xFFFFFF, 8
        at += 4 * bool(flags & 0x1) + 4 * bool(flags & 0x4)     # data offset, flags of the first sample
        words = sum(bool(flags & each) for each in (0x100, 0x200, 0x400, 0x800))
        self.frames += count
        if flags & 0x100:
            self.ticks += sum(struct.unpack_from(">I", data, at + 4 * words * i)[0] for i in range(count))
        else:
            self.ticks += count * self._fragment_ticks
