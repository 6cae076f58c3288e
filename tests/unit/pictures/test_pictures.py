"""Still pictures: read upright, written without what they said about people and places."""

from __future__ import annotations

import contextlib
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from edge.anonymize.gate import Anonymizer, SafeFrame
from edge.errors import EdgeError, InputError, StorageError, UnsafeFrameError
from edge.pictures import StillPicture, read_picture, write_picture
from edge.pictures.metadata import safe_exif
from edge.pictures.still import MAX_PICTURE_PX
from edge.pictures.tiff import Field, read_directory, write_directory
from edge.settings import MaskSettings
from tests.harness.frames import face, frame

Array = npt.NDArray[Any]

THUMBNAIL = b"\xff\xd8 the unmasked face, small \xff\xd9"
MAKER_NOTE = b"MAKERNOTE with a preview of the unmasked face"
CAMERA, PLACE = b"Camera 3000\0", struct.pack("<6I", 52, 1, 31, 1, 12, 1)


def masked(still: StillPicture, *faces: Any) -> SafeFrame:
    return Anonymizer(MaskSettings(method="solid", color=(255, 0, 0))).apply(frame(still.picture), faces)


def through(source: Path, target: Path, *faces: Any, **options: Any) -> Array:
    """What stands in `target` after a round trip, as cv2 sees it."""
    still = read_picture(source)
    write_picture(masked(still, *faces), still, target, **options)
    image: Array | None = cv2.imread(str(target), cv2.IMREAD_UNCHANGED)
    assert image is not None
    return image


def scene(width: int = 64, height: int = 40, dtype: Any = np.uint8) -> Array:
    """A smooth picture whose corners differ, blue first."""
    x, y = np.meshgrid(np.linspace(0, 200, width), np.linspace(0, 200, height))
    image = np.stack((x, y, 220 - x / 2 - y / 2), axis=-1)
    return np.rint(image * (257 if dtype == np.uint16 else 1)).astype(dtype)


def exif(orientation: int = 1) -> bytes:
    """Exif data as a camera writes it: orientation, model, maker note, place, thumbnail."""
    main = [
        Field(0x0110, 2, len(CAMERA), CAMERA),
        Field(0x0112, 3, 1, struct.pack("<H", orientation)),
        Field(0x8769, 4, 1, struct.pack("<I", 200)),
        Field(0x8825, 4, 1, struct.pack("<I", 400)),
    ]
    head = b"II*\0" + struct.pack("<I", 8) + bytearray(write_directory(main, 8, "<"))
    data = bytearray(head.ljust(600, b"\0"))
    struct.pack_into("<I", data, 8 + 2 + 12 * len(main), 520)  # the next directory holds the thumbnail
    detail = [Field(0x9003, 2, 20, b"2024:05:06 07:08:09\0"), Field(0x927C, 7, len(MAKER_NOTE), MAKER_NOTE)]
    place = [Field(1, 2, 2, b"N\0"), Field(2, 5, 3, PLACE)]
    thumbnail = [Field(0x0201, 4, 1, struct.pack("<I", 600)), Field(0x0202, 4, 1, struct.pack("<I", len(THUMBNAIL)))]
    for at, fields in ((200, detail), (400, place), (520, thumbnail)):
        block = write_directory(fields, at, "<")
        data[at : at + len(block)] = block
    return bytes(data) + THUMBNAIL


def icc(space: bytes = b"RGB ") -> bytes:
    """Enough of a colour profile to be taken for one."""
    return b"\0\0\0\x84" + b"\0" * 12 + space + b"\0" * 16 + b"acsp" + b"\0" * 88 + b"\0\0\0\0"


def jpeg(image: Array, *segments: bytes) -> bytes:
    """A JPEG with application segments (marker byte, then content) behind the start."""
    done, encoded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 98])
    assert done
    head = b"".join(b"\xff" + each[:1] + struct.pack(">H", len(each) + 1) + each[1:] for each in segments)
    return b"\xff\xd8" + head + encoded.tobytes()[2:]


def app1(data: bytes) -> bytes:
    return b"\xe1Exif\0\0" + data


# How an upright picture is stored under each orientation: Exif 2.32, tag 0x0112.
STORED = {
    1: lambda image: image,
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: cv2.transpose,
    6: lambda image: cv2.rotate(image, cv2.ROTATE_90_COUNTERCLOCKWISE),
    7: lambda image: cv2.transpose(image)[::-1, ::-1],
    8: lambda image: cv2.rotate(image, cv2.ROTATE_90_CLOCKWISE),
}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied_once(orientation: int, tmp_path: Path) -> None:
    source = tmp_path / "in.jpg"
    source.write_bytes(jpeg(np.ascontiguousarray(STORED[orientation](scene())), app1(exif(orientation))))
    image = through(source, tmp_path / "out.jpg", keep_metadata=True)
    assert image.shape == (40, 64, 3)
    assert np.abs(image.astype(int) - scene()).mean() < 3
    assert read_picture(tmp_path / "out.jpg").header.orientation == 1


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_orientations_that_do_not_exist_are_ignored(orientation: int, tmp_path: Path) -> None:
    source = tmp_path / "in.jpg"
    source.write_bytes(jpeg(scene(), app1(exif(orientation))))
    assert read_picture(source).picture.width_px == 64


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif", ".bmp"])
@pytest.mark.parametrize("keep", [False, True])
def test_nothing_but_pixels_gets_through_unasked(keep: bool, suffix: str, tmp_path: Path) -> None:
    source, target = tmp_path / "in.jpg", tmp_path / ("out" + suffix)
    xmp = b"\xe1http://ns.adobe.com/xap/1.0/\0<x:xmpmeta>SECRET XMP</x:xmpmeta>"
    comment = b"\xfeSECRET COMMENT"
    original = jpeg(scene(), app1(exif(6)), xmp, comment) + b"SECRET TRAILER"
    source.write_bytes(original)
    for planted in (THUMBNAIL, MAKER_NOTE, CAMERA, PLACE, b"SECRET XMP", b"SECRET COMMENT", b"SECRET TRAILER"):
        assert planted in original
    through(source, target, keep_metadata=keep)
    written = target.read_bytes()
    assert b"SECRET" not in written
    assert THUMBNAIL not in written and MAKER_NOTE not in written
    kept = keep and suffix in (".jpg", ".png", ".webp")
    assert (CAMERA in written) is kept
    assert (PLACE in written) is kept
    assert (b"2024:05:06 07:08:09" in written) is kept


def test_kept_exif_has_known_tags_only() -> None:
    cleaned = safe_exif(exif(6))
    assert cleaned is not None
    main, following = read_directory(cleaned, 8, "<")
    assert (sorted(main), following) == ([0x0110, 0x8769, 0x8825], 0)
    detail, _ = read_directory(cleaned, main[0x8769].integers("<")[0], "<")
    place, _ = read_directory(cleaned, main[0x8825].integers("<")[0], "<")
    assert sorted(detail) == [0x9003] and sorted(place) == [1, 2]
    assert place[2].value == PLACE


@pytest.mark.parametrize("cut", [0, 3, 7, 9, 30, 210, 405])
def test_damaged_exif_is_dropped(cut: int, tmp_path: Path) -> None:
    source = tmp_path / "in.jpg"
    source.write_bytes(jpeg(scene(), app1(exif()[:cut])))
    through(source, tmp_path / "out.jpg", keep_metadata=True)


def test_exif_that_points_at_itself_ends() -> None:
    loop = b"II*\0" + struct.pack("<I", 8) + write_directory([Field(0x8769, 4, 1, struct.pack("<I", 8))], 8, "<")
    assert safe_exif(loop) is None


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
@pytest.mark.parametrize(("space", "kept"), [(b"RGB ", True), (b"CMYK", False), (b"GRAY", False)])
def test_the_colour_profile_stays_where_it_fits(space: bytes, kept: bool, suffix: str, tmp_path: Path) -> None:
    source, target = tmp_path / "in.jpg", tmp_path / ("out" + suffix)
    source.write_bytes(jpeg(scene(), b"\xe2ICC_PROFILE\0\x01\x01" + icc(space)))
    through(source, target)
    assert read_picture(target).icc == (icc(space) if kept else None)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", ["gray", "bgr", "bgra"])
@pytest.mark.parametrize("suffix", [".png", ".tiff"])
def test_png_and_tiff_come_back_bit_for_bit(
    suffix: str, channels: str, dtype: Any, keep: bool, tmp_path: Path
) -> None:
    image = scene(dtype=dtype)
    image = {"gray": image[..., 0], "bgr": image, "bgra": np.concatenate((image, image[..., :1] + 1), axis=2)}[channels]
    source = tmp_path / ("in" + suffix)
    assert cv2.imwrite(str(source), image)
    back = through(source, tmp_path / ("out" + suffix), keep_metadata=keep)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, image)


def test_the_mask_is_in_the_file(tmp_path: Path) -> None:
    source = tmp_path / "in.png"
    cv2.imwrite(str(source), scene())
    image = through(source, tmp_path / "out.png", face(20, 10, 40, 30))
    assert image[20, 30].tolist() == [0, 0, 255]
    assert image[2, 2].tolist() == scene()[2, 2].tolist()


def test_what_is_fully_transparent_is_cleared(tmp_path: Path) -> None:
    image = np.concatenate((scene(), np.full((40, 64, 1), 255, np.uint8)), axis=2)
    image[:, :32, 3] = 0
    cv2.imwrite(str(tmp_path / "in.png"), image)
    back = through(tmp_path / "in.png", tmp_path / "out.png")
    assert not back[:, :32].any()
    np.testing.assert_array_equal(back[:, 32:], image[:, 32:])


@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".bmp"])
def test_deep_transparent_pictures_in_formats_that_have_neither(suffix: str, tmp_path: Path) -> None:
    image = np.concatenate((scene(dtype=np.uint16), np.full((40, 64, 1), 65535, np.uint16)), axis=2)
    cv2.imwrite(str(tmp_path / "in.png"), image)
    back = through(tmp_path / "in.png", tmp_path / ("out" + suffix))
    assert np.abs(back[..., :3].astype(int) - scene()).mean() < 3


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (50, 1), (7, 5)], ids=str)
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".bmp", ".tif"])
def test_small_pictures(suffix: str, size: tuple[int, int], tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / ("in" + suffix)), scene(*size))
    back = through(tmp_path / ("in" + suffix), tmp_path / ("out" + suffix), face(0, 0, *size))
    assert back.shape == (size[1], size[0], 3)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".bmp", ".tif"])
@pytest.mark.parametrize("part", [0.02, 0.5, 0.97])
def test_a_picture_that_is_cut_short_is_refused(suffix: str, part: float, tmp_path: Path) -> None:
    source = tmp_path / ("in" + suffix)
    cv2.imwrite(str(source), scene(200, 150))
    data = source.read_bytes()
    source.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(InputError) as caught:
        read_picture(source)
    assert caught.value.exit_code == 66 and "\n" not in str(caught.value)


@pytest.mark.parametrize("offset", range(0, 400, 7))
def test_damaged_bytes_end_in_a_picture_or_one_line(offset: int, tmp_path: Path) -> None:
    for suffix in (".jpg", ".png", ".webp", ".bmp", ".tif"):
        source = tmp_path / ("in" + suffix)
        cv2.imwrite(str(source), scene())
        data = bytearray(source.read_bytes())
        data[offset % len(data)] ^= 0xFF
        source.write_bytes(data)
        try:
            read_picture(source)
        except InputError as error:
            assert "\n" not in str(error)


def test_a_huge_picture_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    source = tmp_path / "bomb.png"
    data = bytearray(cv2.imencode(".png", scene())[1].tobytes())
    struct.pack_into(">II", data, 16, 60_000, 60_000)
    source.write_bytes(data)
    assert MAX_PICTURE_PX < 60_000**2
    with pytest.raises(InputError, match="60000 x 60000"):
        read_picture(source)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.jpg", None),
        ("empty.jpg", b""),
        ("text.jpg", b"hello"),
        ("gif.png", b"GIF89a" + bytes(50)),
        ("start.jpg", b"\xff\xd8"),
        ("start.png", b"\x89PNG\r\n\x1a\n"),
        ("start.webp", b"RIFF\x04\0\0\0WEBP"),
        ("start.bmp", b"BM"),
        ("start.tif", b"II*\0\x08\0\0\0"),
        ("loop.tif", b"II*\0\x08\0\0\0\0\0\x08\0\0\0"),
    ],
)
def test_what_is_no_picture_is_refused_in_one_line(name: str, content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_picture(path)
    assert caught.value.exit_code == 66 and "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_picture(tmp_path)


def test_several_pages_are_refused_and_float_samples_too(tmp_path: Path) -> None:
    cv2.imwritemulti(str(tmp_path / "pages.tif"), [scene(), scene()])
    with pytest.raises(InputError, match="2 pictures"):
        read_picture(tmp_path / "pages.tif")
    cv2.imwrite(str(tmp_path / "float.tif"), scene().astype(np.float32))
    with pytest.raises(InputError, match="float32"):
        read_picture(tmp_path / "float.tif")


def test_p3_a_picture_is_never_overwritten_unasked(tmp_path: Path) -> None:
    source, target = tmp_path / "in.png", tmp_path / "out.png"
    cv2.imwrite(str(source), scene())
    target.write_bytes(b"precious")
    with pytest.raises(StorageError):
        through(source, target)
    assert target.read_bytes() == b"precious"
    through(source, target, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.png", "out.png"]


@pytest.mark.parametrize("target", ["missing/out.png", "out.gif", "out"])
def test_a_result_that_cannot_be_written_leaves_nothing(target: str, tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "in.png"), scene())
    with pytest.raises(StorageError):
        through(tmp_path / "in.png", tmp_path / target)
    assert [path.name for path in tmp_path.iterdir()] == ["in.png"]


def test_p1_a_safe_frame_is_written_once_and_released(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "in.png"), scene())
    still = read_picture(tmp_path / "in.png")
    released: list[str] = []
    for name in ("out.png", "missing/out.png"):
        held = replace(frame(still.picture), release=lambda name=name: released.append(name))  # type: ignore[misc]
        safe = Anonymizer(MaskSettings()).apply(held, [])
        with contextlib.suppress(StorageError):
            write_picture(safe, still, tmp_path / name)
        with pytest.raises(UnsafeFrameError):
            write_picture(safe, still, tmp_path / "again.png")
    assert released == ["out.png", "missing/out.png"]
    assert not (tmp_path / "again.png").exists()


AWKWARD = {
    "anonymised_collage_01.jpg": (1920, 473, "bgr", np.uint8),
    "cmyk.jpg": (688, 720, "bgr", np.uint8),
    "empty.jpg": "is empty",
    "face.webp": (688, 720, "bgr", np.uint8),
    "gray16.png": (688, 720, "gray", np.uint16),
    "not_an_image.jpg": "is not a",
    "one_pixel.png": (1, 1, "bgr", np.uint8),
    "palette.png": (688, 720, "bgr", np.uint8),
    "png_named.jpg": (344, 360, "bgr", np.uint8),
    "progressive.jpg": (688, 720, "bgr", np.uint8),
    "rgb16.png": (320, 334, "bgr", np.uint16),
    "rgba_face.png": (720, 489, "bgra", np.uint8),
    "truncated.jpg": "cut short",
    **{f"exif_orientation_{number}.jpg": (640, 720, "bgr", np.uint8) for number in (1, 2, 5, 6, 7, 8)},
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_files(name: str, shared_data: Path, tmp_path: Path) -> None:
    source, wanted = shared_data / "photos" / "misc" / name, AWKWARD[name]
    if isinstance(wanted, str):
        with pytest.raises(InputError, match=wanted):
            read_picture(source)
        return
    still = read_picture(source)
    picture = still.picture
    assert (picture.width_px, picture.height_px, picture.layout, picture.planes[0].samples.dtype) == wanted
    original = picture.planes[0].samples.copy()
    write_picture(masked(still), still, tmp_path / name)
    back = read_picture(tmp_path / name).picture.planes[0].samples
    assert back.dtype == (np.uint8 if name.endswith(".jpg") else original.dtype)
    assert np.abs(back.astype(float) - original).mean() < 2


def test_the_orientations_look_the_same(shared_data: Path) -> None:
    folder = shared_data / "photos" / "misc"
    first = read_picture(folder / "exif_orientation_1.jpg").picture.planes[0].samples.astype(float)
    for number in (2, 5, 6, 7, 8):
        other = read_picture(folder / f"exif_orientation_{number}.jpg").picture.planes[0].samples
        assert np.abs(other - first).mean() < 3


def test_every_awkward_file_is_a_picture_or_a_one_line_error(shared_data: Path) -> None:
    for path in sorted((shared_data / "photos" / "misc").iterdir()):
        try:
            read_picture(path)
        except EdgeError as error:
            assert "\n" not in str(error)
