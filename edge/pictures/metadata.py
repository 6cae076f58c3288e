"""Which metadata may stay with a masked picture, and where it goes in a file.

Exif is rebuilt from a list of known tags instead of being edited: thumbnails, maker notes, previews and XMP packets
hold copies of the unmasked face, and a list of what is allowed cannot miss one.
"""

from __future__ import annotations

import struct
import zlib

from edge.pictures.header import Format
from edge.pictures.tiff import Field, Order, TiffError, byte_order, read_directory, write_directory

_EXIF_POINTER, _GPS_POINTER = 0x8769, 0x8825
_MAX_VALUE_BYTES = 1000
_MAX_ICC_BYTES = 1 << 16

# ImageDescription Make Model XResolution YResolution ResolutionUnit Software DateTime Artist Copyright
_MAIN_TAGS = frozenset({0x010E, 0x010F, 0x0110, 0x011A, 0x011B, 0x0128, 0x0131, 0x0132, 0x013B, 0x8298})
# Exposure, times, lens, flash, owner, serial numbers. Not: MakerNote, UserComment, SubjectArea, pointers, image sizes.
_EXIF_TAGS = frozenset({
    0x829A, 0x829D, 0x8822, 0x8824, 0x8827, *range(0x8830, 0x8836), 0x9000, 0x9003, 0x9004, 0x9010, 0x9011, 0x9012,
    *range(0x9201, 0x920B), 0x9290, 0x9291, 0x9292, 0xA000, 0xA001, 0xA20E, 0xA20F, 0xA210, 0xA215, 0xA217,
    *range(0xA401, 0xA40B), 0xA40C, *range(0xA430, 0xA436),
})
_GPS_TAGS = frozenset(range(0x20))


def safe_exif(tiff: bytes) -> bytes | None:
    """Exif data with known tags only: without orientation, thumbnail and maker note. None if nothing is left."""
    try:
        order = byte_order(tiff)
        main, _ = read_directory(tiff, struct.unpack_from(order + "I", tiff, 4)[0], order)
        exif = _kept(_below(tiff, main, _EXIF_POINTER, order), _EXIF_TAGS)
        gps = _kept(_below(tiff, main, _GPS_POINTER, order), _GPS_TAGS)
    except (TiffError, struct.error):
        return None
    kept = _kept(main, _MAIN_TAGS)
    if not (kept or exif or gps):
        return None
    pointers = [tag for tag, fields in ((_EXIF_POINTER, exif), (_GPS_POINTER, gps)) if fields]
    at = 8 + len(write_directory([*kept, *(_pointer(tag, 0, order) for tag in pointers)], 8, order))
    body = b""
    for tag, fields in ((_EXIF_POINTER, exif), (_GPS_POINTER, gps)):
        if fields:
            kept.append(_pointer(tag, at + len(body), order))
            body += write_directory(fields, at + len(body), order)
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return magic + struct.pack(order + "I", 8) + write_directory(kept, 8, order) + body


def _below(tiff: bytes, fields: dict[int, Field], pointer: int, order: Order) -> dict[int, Field]:
    if pointer not in fields:
        return {}
    return read_directory(tiff, fields[pointer].integers(order)[0], order)[0]


def _kept(fields: dict[int, Field], tags: frozenset[int]) -> list[Field]:
    return [field for tag, field in fields.items() if tag in tags and len(field.value) <= _MAX_VALUE_BYTES]


def _pointer(tag: int, at: int, order: Order) -> Field:
    return Field(tag, 4, 1, struct.pack(order + "I", at))


def safe_icc(icc: bytes | None, is_gray: bool) -> bytes | None:
    """The colour profile if it is a small one for this kind of picture (ICC.1:2022 section 7.2.6), else None."""
    if icc is None or not 128 <= len(icc) <= _MAX_ICC_BYTES or icc[36:40] != b"acsp":
        return None
    return icc if icc[16:20] == (b"GRAY" if is_gray else b"RGB ") else None


def embed(encoded: bytes, kind: Format, exif: bytes | None, icc: bytes | None) -> bytes:
    """An encoded JPEG, PNG or WebP file with Exif data and colour profile; other formats come back as they are."""
    if exif is None and icc is None:
        return encoded
    if kind == "jpeg":
        return _embed_jpeg(encoded, exif, icc)
    if kind == "png":
        return _embed_png(encoded, exif, icc)
    if kind == "webp":
        return _embed_webp(encoded, exif, icc)
    return encoded


def _embed_jpeg(encoded: bytes, exif: bytes | None, icc: bytes | None) -> bytes:
    head = b""
    if exif is not None and len(exif) < 65_000:
        head += struct.pack(">HH", 0xFFE1, 8 + len(exif)) + b"Exif\0\0" + exif
    at = 2
    if encoded[2:4] == b"\xff\xe0":     # JFIF comes first
        at += 2 + struct.unpack_from(">H", encoded, 4)[0]
    parts = [icc[i : i + 65_000] for i in range(0, len(icc), 65_000)] if icc is not None else []
    for number, part in enumerate(parts, 1):
        head += struct.pack(">HH", 0xFFE2, 16 + len(part)) + b"ICC_PROFILE\0" + bytes((number, len(parts))) + part
    return encoded[:at] + head + encoded[at:]


def _embed_png(encoded: bytes, exif: bytes | None, icc: bytes | None) -> bytes:
    chunks = b""
    if icc is not None:
        chunks += _png_chunk(b"iCCP", b"profile\0\0" + zlib.compress(icc))
    if exif is not None:
        chunks += _png_chunk(b"eXIf", exif)
    behind_ihdr = 8 + 25
    return encoded[:behind_ihdr] + chunks + encoded[behind_ihdr:]


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _embed_webp(encoded: bytes, exif: bytes | None, icc: bytes | None) -> bytes:
    """RFC 9649 section 2.7: VP8X, ICCP, picture data, EXIF."""
    from edge.pictures.header import read_header

    header = read_header(encoded)
    chunks = encoded[12:]
    has_alpha = chunks[:4] == b"VP8L" and bool(chunks[8 + 4] & 0x10)    # VP8L: bit 28 behind the signature
    if chunks[:4] == b"VP8X":
        has_alpha = bool(chunks[8] & 0x10)
        chunks = chunks[18:]
    flags = (0x20 if icc is not None else 0) | (0x10 if has_alpha else 0) | (0x08 if exif is not None else 0)
    size = (header.width_px - 1).to_bytes(3, "little") + (header.height_px - 1).to_bytes(3, "little")
    body = b"WEBP" + _riff_chunk(b"VP8X", bytes((flags, 0, 0, 0)) + size)
    body += _riff_chunk(b"ICCP", icc) if icc is not None else b""
    body += chunks + (_riff_chunk(b"EXIF", exif) if exif is not None else b"")
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _riff_chunk(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)
