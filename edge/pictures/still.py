"""Read a picture upright, write it masked: nothing of the original but its pixels gets through unasked."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from edge.anonymize.gate import SafeFrame
from edge.errors import InputError, StorageError
from edge.pictures.header import Format, Header, HeaderError, read_header
from edge.pictures.metadata import embed, safe_exif, safe_icc
from edge.storage import create_part, part_path, publish
from edge.types import Layout, Picture, Plane

Image = npt.NDArray[Any]

MAX_PICTURE_PX = 200_000_000
"""Larger pictures are refused before they are decoded: a few hundred kilobytes can ask for gigabytes."""

_MAX_FILE_BYTES = 1 << 30
_JPEG_QUALITY = 95
_WEBP_QUALITY, _WEBP_LOSSLESS = 95, 101

_FORMATS: dict[str, Format] = {
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".png": "png",
    ".webp": "webp",
    ".bmp": "bmp",
    ".tif": "tiff",
    ".tiff": "tiff",
}


@dataclass(frozen=True, slots=True, eq=False)
class StillPicture:
    """A picture and what its file says about it.

    picture: upright, ``gray``, ``bgr`` or ``bgra``, uint8 or uint16. What lies under fully transparent pixels has
        been cleared: nobody sees it, so nobody would notice a face there.
    exif: cleaned Exif data (`edge.pictures.metadata.safe_exif`), or None. icc: colour profile, or None.
    """

    picture: Picture
    header: Header
    exif: bytes | None
    icc: bytes | None


def read_picture(path: Path) -> StillPicture:
    """Decode a picture and turn it upright.

    Raises InputError: missing, not a picture, cut short (what is missing would be grey, and faces in it cut in half),
    animated or with several pages, larger than `MAX_PICTURE_PX`, or with samples that are not 8 or 16 bits.
    """
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):     # a pipe never ends, nor does /dev/zero
            raise InputError(f"{path}: not a regular file", "give a picture file")
        if facts.st_size > _MAX_FILE_BYTES:
            raise InputError(f"{path}: larger than {_MAX_FILE_BYTES >> 20} MiB", "give a smaller picture")
        data = path.read_bytes()
        header = read_header(data)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}", "give a picture that can be read") from error
    except HeaderError as error:
        raise InputError(f"{path} {error}", "give a JPEG, PNG, WebP, BMP or TIFF file") from error
    _check(header, path)
    image = _upright(_decoded(data, header, path), header.orientation)
    layout: Layout = "gray"
    if image.ndim == 3:
        layout = "bgr" if image.shape[2] == 3 else "bgra"
    if layout == "bgra":
        image[image[..., 3] == 0] = 0
    picture = Picture(image.shape[1], image.shape[0], layout, (Plane(image),))
    exif = safe_exif(header.exif) if header.exif else None
    return StillPicture(picture, header, exif, safe_icc(header.icc, layout == "gray"))


def write_picture(
    safe: SafeFrame, still: StillPicture, path: Path, *, keep_metadata: bool = False, overwrite: bool = False
) -> None:
    """Write a masked picture, in the format that the name asks for, and release its frame.

    still: what was read, for the colour profile and, with `keep_metadata`, the Exif data. Its pixels are not used.
    JPEG has neither alpha nor 16 bits, WebP and BMP have no 16 bits; they are dropped there.
    Raises StorageError: the file exists, the disk is full, the format cannot hold the picture.
    """
    frame = safe.take()
    try:
        kind = _FORMATS.get(path.suffix.lower())
        if kind is None:
            raise StorageError(f"{path}: not a format that can be written", f"use one of {' '.join(_FORMATS)}")
        encoded = _encoded(frame.picture.planes[0].samples, kind, still.header, path)
        encoded = embed(encoded, kind, still.exif if keep_metadata else None, still.icc)
        _store(encoded, path, overwrite)
    finally:
        frame.release()


def _check(header: Header, path: Path) -> None:
    size = f"{header.width_px} x {header.height_px} pixels"
    if header.width_px <= 0 or header.height_px <= 0:
        raise InputError(f"{path} has {size}", "give a picture that is whole")
    if header.width_px * header.height_px > MAX_PICTURE_PX:
        raise InputError(f"{path} has {size}", f"pictures may have up to {MAX_PICTURE_PX // 1_000_000} million")
    if not header.complete:
        raise InputError(f"{path} is cut short", "get a whole copy of it")
    if header.frames > 1:
        raise InputError(f"{path} holds {header.frames} pictures", "give them one by one, or an animation as a video")


def _decoded(data: bytes, header: Header, path: Path) -> Image:
    """Samples as the file has them: uint8 or uint16, (H, W) or (H, W, 3 or 4), blue first."""
    try:
        image: Image | None = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error as error:
        raise InputError(f"{path}: cannot be decoded ({error.err})", "the file may be damaged") from error
    if image is None:
        raise InputError(f"{path}: cannot be decoded", "the file may be damaged, or of a variant that is not supported")
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[..., 0]
    if image.dtype not in (np.uint8, np.uint16) or image.ndim not in (2, 3) or image.shape[2:] not in ((), (3,), (4,)):
        depth = f"{image.dtype} samples in {image.shape[2] if image.ndim == 3 else 1} channels"
        raise InputError(f"{path} has {depth}", "convert it to 8 or 16 bits, grey or RGB")
    if image.shape[:2] != (header.height_px, header.width_px):
        raise InputError(f"{path}: decoded to another size than its header says", "the file may be damaged")
    return image


def _upright(image: Image, orientation: int) -> Image:
    """Apply Exif orientation (Exif 2.32 section 4.6.4 A, tag Orientation)."""
    if orientation in (5, 6, 7, 8):
        image = np.swapaxes(image, 0, 1)
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    return np.ascontiguousarray(image)


def _encoded(samples: Image, kind: Format, source: Header, path: Path) -> bytes:
    suffix = {"jpeg": ".jpg", "tiff": ".tif"}.get(kind, "." + kind)
    if samples.dtype == np.uint16 and kind not in ("png", "tiff"):
        samples = np.right_shift(samples, 8).astype(np.uint8)
    options: list[int] = []
    if kind == "jpeg":
        if samples.ndim == 3:
            samples = samples[..., :3]
        full = source.full_chroma or source.lossless
        sampling = cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444 if full else cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420
        options = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling]
    elif kind == "webp":
        options = [cv2.IMWRITE_WEBP_QUALITY, _WEBP_LOSSLESS if source.lossless else _WEBP_QUALITY]
    try:
        done, encoded = cv2.imencode(suffix, np.ascontiguousarray(samples), options)
    except cv2.error as error:
        raise StorageError(f"{path}: cannot be encoded ({error.err})", "use another format") from error
    if not done:
        raise StorageError(f"{path}: cannot be encoded", "use another format")
    return encoded.tobytes()


def _store(encoded: bytes, path: Path, overwrite: bool) -> None:
    """Write the `.part`, then give it its name; leaves no `.part` behind."""
    descriptor = create_part(path, overwrite)
    try:
        view = memoryview(encoded)
        while view:
            view = view[os.write(descriptor, view) :]
        publish(part_path(path), path, overwrite)
    except BaseException as error:
        part_path(path).unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, StorageError):
            raise StorageError(f"{path}: {error.strerror or error}", "free some space or write elsewhere") from error
        raise
    finally:
        os.close(descriptor)
