"""What a decoded picture is like: GStreamer caps to a `PictureFormat`, and back for the encoder."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from edge.errors import InputError
from edge.video.gst import load

Matrix = Literal["bt601", "bt709", "bt2020"]
# Short names of GStreamer (video-color.c) and what they stand for: range:matrix:transfer:primaries.
_NAMED = {"bt601": "2:4:16:4", "bt709": "2:3:5:1", "smpte240m": "2:5:6:5", "sRGB": "1:1:7:1",
          "bt2020": "2:6:13:7", "bt2020-10": "2:6:11:7", "bt2100-pq": "2:6:14:7", "bt2100-hlg": "2:6:15:7"}
_MATRICES: dict[str, Matrix] = {"3": "bt709", "4": "bt601", "2": "bt601", "5": "bt709", "6": "bt2020"}
_MATRIX_NUMBERS = {"bt601": "4", "bt709": "3", "bt2020": "6"}
_UNKNOWN = ["0", "0", "0", "0"]
_FULL_RANGE = "1"
MAX_PIXELS = 8192 * 8192


@dataclass(frozen=True, slots=True)
class PictureFormat:
    """The format of a run of pictures; a change of it starts a new epoch.

    width_px, height_px: as decoded and turned upright, possibly odd. stored_width_px, stored_height_px are even.
    colorimetry: GStreamer's text, empty where the source says nothing.
    """

    width_px: int
    height_px: int
    pixel_aspect: Fraction
    colorimetry: str = ""

    @property
    def stored_width_px(self) -> int:
        """4:2:0 coding needs even sizes; an odd picture gets one more column."""
        return self.width_px + self.width_px % 2

    @property
    def stored_height_px(self) -> int:
        """Even, see `stored_width_px`."""
        return self.height_px + self.height_px % 2

    @property
    def matrix(self) -> Matrix:
        """Where the source says nothing: BT.601 up to 576 lines, else BT.709, as players take it."""
        known = _MATRICES.get(self._numbers[1])
        return known or ("bt601" if self.height_px <= 576 else "bt709")

    @property
    def full_range(self) -> bool:
        """Luma runs from 0 to 255 rather than from 16 to 235."""
        return self._numbers[0] == _FULL_RANGE

    @property
    def _numbers(self) -> list[str]:
        return _numbers(self.colorimetry)


def _numbers(colorimetry: str) -> list[str]:
    """Range, matrix, transfer and primaries as GStreamer numbers them; "0" is unknown."""
    numbers = _NAMED.get(colorimetry, colorimetry).split(":")
    return numbers if len(numbers) == 4 else list(_UNKNOWN)


def merged_colorimetry(stream: str, container: str) -> str:
    """What the coded stream says, completed by what its container says (ITU-T H.273 allows either to be silent)."""
    if not stream or not container:
        return stream or container
    both = zip(_numbers(stream), _numbers(container), strict=True)
    return ":".join(own if own != "0" else other for own, other in both)


def format_of(caps: Any, container_colorimetry: str = "") -> PictureFormat:
    """The format that raw video caps describe. Raises InputError for a size beyond 8192 x 8192 pixels in all."""
    structure = caps.get_structure(0)
    width, height = structure.get_int("width")[1], structure.get_int("height")[1]
    if width < 1 or height < 1 or width * height > MAX_PIXELS:
        raise InputError(f"pictures of {width} x {height} pixels are not supported")
    known, numerator, denominator = structure.get_fraction("pixel-aspect-ratio")
    aspect = Fraction(numerator, denominator) if known and numerator > 0 and denominator > 0 else Fraction(1)
    colorimetry = merged_colorimetry(structure.get_string("colorimetry") or "", container_colorimetry)
    return PictureFormat(width, height, aspect, colorimetry)


def frame_rate_of(caps: Any) -> Fraction | None:
    """Nominal frames per second, or None where unknown or variable."""
    known, numerator, denominator = caps.get_structure(0).get_fraction("framerate")
    return Fraction(numerator, denominator) if known and numerator > 0 and denominator > 0 else None


def encoder_caps(picture: PictureFormat, frame_rate: Fraction | None) -> Any:
    """Caps of what is pushed to an encoder: NV12 at the stored size."""
    rate = frame_rate or Fraction(0)
    text = (f"video/x-raw,format=NV12,width={picture.stored_width_px},height={picture.stored_height_px},"
            f"framerate={rate.numerator}/{rate.denominator},interlace-mode=progressive,"
            f"pixel-aspect-ratio={picture.pixel_aspect.numerator}/{picture.pixel_aspect.denominator}")
    numbers = _numbers(picture.colorimetry)
    if numbers != _UNKNOWN:
        # GStreamer ignores the whole colorimetry of a YCbCr format, range included, where the matrix is unknown.
        numbers[1] = numbers[1] if numbers[1] in _MATRICES else _MATRIX_NUMBERS[picture.matrix]
        text += f",colorimetry=(string){':'.join(numbers)}"
    return load().Gst.Caps.from_string(text)
