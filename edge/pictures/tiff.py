"""Directories of tags: the structure of TIFF files and of Exif data (TIFF 6.0 section 2, Exif 2.32 section 4.5.2)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Order = Literal["<", ">"]

# Bytes per value of each field type: BYTE ASCII SHORT LONG RATIONAL SBYTE UNDEFINED SSHORT SLONG SRATIONAL FLOAT DOUBLE
TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}

_MAX_DIRECTORIES = 1000
_ORIENTATION = 0x0112


class TiffError(ValueError):
    """The structure is damaged."""


@dataclass(frozen=True, slots=True)
class Field:
    """One tag. value: its bytes in the byte order of the file, `count` values of `kind`."""

    tag: int
    kind: int
    count: int
    value: bytes

    def integers(self, order: Order) -> tuple[int, ...]:
        """Values of a BYTE, SHORT or LONG field. Raises TiffError for another type."""
        code = {1: "B", 3: "H", 4: "I"}.get(self.kind)
        if code is None:
            raise TiffError(f"tag {self.tag} is not a whole number")
        return struct.unpack(f"{order}{self.count}{code}", self.value)


def byte_order(data: bytes) -> Order:
    """Order and magic number at the start of a TIFF structure. Raises TiffError for anything else."""
    if data[:4] == b"II*\0":
        return "<"
    if data[:4] == b"MM\0*":
        return ">"
    raise TiffError("no TIFF header")


def read_directory(data: bytes, at: int, order: Order) -> tuple[dict[int, Field], int]:
    """Fields of the directory at an offset by tag, and the offset of the next one (0: none).

    Fields of unknown type or with values outside the data are left out. Raises TiffError if the directory itself is
    outside.
    """
    try:
        (count,) = struct.unpack_from(order + "H", data, at)
        fields: dict[int, Field] = {}
        for entry in range(at + 2, at + 2 + 12 * count, 12):
            tag, kind, length = struct.unpack_from(order + "HHI", data, entry)
            size = TYPE_BYTES.get(kind, 0) * length
            start = entry + 8 if size <= 4 else struct.unpack_from(order + "I", data, entry + 8)[0]
            if 0 < size <= len(data) - start:
                fields[tag] = Field(tag, kind, length, data[start : start + size])
        return fields, struct.unpack_from(order + "I", data, at + 2 + 12 * count)[0]
    except struct.error as error:
        raise TiffError("a directory lies outside the data") from error


def write_directory(fields: list[Field], at: int, order: Order) -> bytes:
    """A directory to be placed at offset `at`, with its long values behind it and no next directory."""
    entries, values = b"", b""
    values_at = at + 2 + 12 * len(fields) + 4
    for field in sorted(fields, key=lambda field: field.tag):
        inline = field.value.ljust(4, b"\0")
        if len(field.value) > 4:
            inline = struct.pack(order + "I", values_at + len(values))
            values += field.value + b"\0" * (len(field.value) % 2)
        entries += struct.pack(order + "HHI", field.tag, field.kind, field.count) + inline
    return struct.pack(order + "H", len(fields)) + entries + b"\0\0\0\0" + values


def orientation_of(tiff: bytes) -> int:
    """Exif orientation, 1 to 8; 1 where it is missing or makes no sense."""
    try:
        order = byte_order(tiff)
        fields, _ = read_directory(tiff, struct.unpack_from(order + "I", tiff, 4)[0], order)
        return _orientation(fields, order)
    except (TiffError, struct.error):
        return 1


def _orientation(fields: dict[int, Field], order: Order) -> int:
    field = fields.get(_ORIENTATION)
    value = field.integers(order)[0] if field is not None else 1
    return value if 1 <= value <= 8 else 1


@dataclass(frozen=True, slots=True)
class ImageDirectory:
    """One picture of a TIFF file. data_end: offset behind its last strip or tile."""

    width_px: int
    height_px: int
    orientation: int
    is_reduced: bool
    data_end: int
    icc: bytes | None


def image_directories(data: bytes) -> Iterator[ImageDirectory]:
    """The pictures of a TIFF file. Raises TiffError."""
    order = byte_order(data)
    at = struct.unpack_from(order + "I", data, 4)[0]
    seen: set[int] = set()
    while at and at not in seen and len(seen) < _MAX_DIRECTORIES:
        seen.add(at)
        fields, following = read_directory(data, at, order)

        def whole(tag: int, other: int = 0, fields: dict[int, Field] = fields) -> tuple[int, ...]:
            field = fields.get(tag) or fields.get(other)
            return field.integers(order) if field is not None else ()

        if not whole(256) or not whole(257):
            raise TiffError("a picture without a size")
        ends = [start + size for start, size in zip(whole(273, 324), whole(279, 325), strict=False)]
        yield ImageDirectory(
            width_px=whole(256)[0],
            height_px=whole(257)[0],
            orientation=_orientation(fields, order),
            is_reduced=bool(whole(254) and whole(254)[0] & 1),
            data_end=max(ends, default=0),
            icc=fields[34675].value if 34675 in fields else None,
        )
        at = following
