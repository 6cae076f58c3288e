"""What a picture file says about itself before a single pixel is decoded.

Size, so that a small file cannot ask for a huge picture; orientation, colour profile and Exif data; and whether the
file is whole, because decoders fill what is missing with grey and say nothing.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from edge.pictures.tiff import ImageDirectory, TiffError, image_directories, orientation_of

Format = Literal["jpeg", "png", "webp", "bmp", "tiff"]

_MAX_ICC_BYTES = 1 << 20


class HeaderError(ValueError):
    """These bytes are not a picture that can be read; the text says why."""


@dataclass(frozen=True, slots=True)
class Header:
    """Facts from the header.

    width_px, height_px: as encoded, before `orientation` (Exif 1 to 8) is applied.
    frames: pictures in the file; more than one is an animation or several pages. complete: the end is there.
    full_chroma: JPEG without chroma subsampling. lossless: stored without loss.
    exif: a TIFF structure as in Exif 2.32 section 4.5, or None. icc: the embedded colour profile, or None.
    """

    format: Format
    width_px: int
    height_px: int
    complete: bool
    lossless: bool
    frames: int = 1
    full_chroma: bool = False
    exif: bytes | None = None
    icc: bytes | None = None
    tiff_orientation: int | None = None

    @property
    def orientation(self) -> int:
        if self.tiff_orientation is not None:
            return self.tiff_orientation
        return orientation_of(self.exif) if self.exif else 1


def read_header(data: bytes) -> Header:
    """The header of a picture file. Raises HeaderError for anything that is not a known picture."""
    if not data:
        raise HeaderError("is empty")
    try:
        if data.startswith(b"\xff\xd8"):
            return _jpeg(data)
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return _png(data)
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return _webp(data)
        if data.startswith(b"BM"):
            return _bmp(data)
        if data[:4] in (b"II*\0", b"MM\0*"):
            return _tiff(data)
    except (struct.error, IndexError, TiffError, zlib.error) as error:
        raise HeaderError("has a damaged header, or is cut short") from error
    raise HeaderError("is not a JPEG, PNG, WebP, BMP or TIFF picture")


def _jpeg(data: bytes) -> Header:
    """ITU-T T.81 annex B: marker segments up to the first scan."""
    size: tuple[int, int] | None = None
    full_chroma = False
    exif: bytes | None = None
    profile: dict[int, bytes] = {}
    at = 2
    while True:
        while data[at + 1] == 0xFF:     # fill bytes
            at += 1
        marker, length = struct.unpack_from(">xBH", data, at)
        if data[at] != 0xFF:
            raise HeaderError("has a damaged header")
        body = data[at + 4 : at + 2 + length]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width, components = struct.unpack_from(">xHHB", body)
            size = width, height
            sampling = {body[7 + 3 * i] for i in range(components)}
            full_chroma = components == 3 and sampling == {0x11}
        elif marker == 0xE1 and body.startswith(b"Exif\0\0") and exif is None:
            exif = body[6:]
        elif marker == 0xE2 and body.startswith(b"ICC_PROFILE\0"):      # ICC.1:2022 annex B.4
            profile[body[12]] = body[14:]
        elif marker == 0xDA:
            break
        at += 2 + length
    if size is None:
        raise HeaderError("has a damaged header")
    icc = b"".join(profile[part] for part in sorted(profile)) or None
    complete = data.find(b"\xff\xd9", at) >= 0
    return Header("jpeg", *size, complete, lossless=False, full_chroma=full_chroma, exif=exif, icc=icc)


def _png(data: bytes) -> Header:
    """PNG third edition, section 11."""
    width, height = struct.unpack_from(">II", data, 16)
    exif = icc = None
    frames, complete = 1, False
    for kind, body in _png_chunks(data):
        if kind == b"eXIf":
            exif = body
        elif kind == b"iCCP":
            _, _, packed = body.partition(b"\0")
            icc = zlib.decompressobj().decompress(packed[1:], _MAX_ICC_BYTES)
        elif kind == b"acTL":
            frames = struct.unpack_from(">I", body)[0]
        elif kind == b"IEND":
            complete = True
    return Header("png", width, height, complete, lossless=True, frames=frames, exif=exif, icc=icc)


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and body of each whole chunk up to IEND."""
    at, kind = 8, b""
    while at + 12 <= len(data) and kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", data, at)
        if at + 12 + length > len(data):
            return
        yield kind, data[at + 8 : at + 8 + length]
        at += 12 + length


def _webp(data: bytes) -> Header:
    """WebP container specification (RFC 9649 section 2)."""
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    exif = icc = None
    size: tuple[int, int] | None = None
    frames, lossless, at = 0, False, 12
    while at + 8 <= min(end, len(data)):
        kind, length = struct.unpack_from("<4sI", data, at)
        body = data[at + 8 : at + 8 + length]
        if kind == b"VP8X":
            size = 1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little")
        elif kind == b"VP8 ":
            width, height = struct.unpack_from("<HH", body, 6)
            size, frames = size or (width & 0x3FFF, height & 0x3FFF), frames + 1
        elif kind == b"VP8L":
            bits = int.from_bytes(body[1:5], "little")
            size, frames, lossless = size or (1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)), frames + 1, True
        elif kind == b"ANMF":
            frames += 1
        elif kind == b"EXIF":
            exif = body.removeprefix(b"Exif\0\0")
        elif kind == b"ICCP":
            icc = body
        at += 8 + length + length % 2
    if size is None:
        raise HeaderError("has a damaged header, or is cut short")
    return Header("webp", *size, len(data) >= end, lossless, frames=max(frames, 1), exif=exif, icc=icc)


def _bmp(data: bytes) -> Header:
    """BITMAPFILEHEADER and BITMAPINFOHEADER or the older BITMAPCOREHEADER."""
    pixels_at, header_bytes = struct.unpack_from("<II", data, 10)
    if header_bytes == 12:
        width, height, _, depth = struct.unpack_from("<HHHH", data, 18)
        compression = 0
    else:
        width, height, _, depth, compression = struct.unpack_from("<iiHHI", data, 18)
    height = abs(height)    # negative: rows from the top
    row_bytes = (width * depth + 31) // 32 * 4
    complete = compression not in (0, 3) or len(data) >= pixels_at + row_bytes * height
    return Header("bmp", width, height, complete, lossless=True)


def _tiff(data: bytes) -> Header:
    """TIFF 6.0; reduced copies of the picture (NewSubfileType bit 0) do not count as pages."""
    pages: list[ImageDirectory] = [page for page in image_directories(data) if not page.is_reduced]
    if not pages:
        raise HeaderError("is a TIFF file without a picture")
    page = pages[0]
    return Header(
        "tiff",
        page.width_px,
        page.height_px,
        complete=page.data_end <= len(data),
        lossless=True,
        frames=len(pages),
        icc=page.icc,
        tiff_orientation=page.orientation,
    )
