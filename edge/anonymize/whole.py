"""Hides a whole picture: what happens to every frame about which anything is in doubt."""

from __future__ import annotations

from edge.anonymize.masks import Mask
from edge.anonymize.pixelate import Pixelate
from edge.errors import UnsafeFrameError
from edge.types import Picture

_BLOCKS = 6
_NO_COLOR = 128
_SAMPLE_TYPES = ("|u1", "<u2")


def hide_whole(picture: Picture) -> None:
    """Turn the picture into a mosaic in place: at most 6 blocks along its shorter side, no finer along the other.

    A face that fills the picture keeps as few blocks as any masked face. Planes whose shape is not what the picture
    says are made one flat value each. Raises UnsafeFrameError if samples may be out of reach: a plane is missing,
    too small or read-only.
    """
    expected = plane_shapes(picture)
    planes = picture.planes
    if len(planes) != len(expected) or not all(
        _holds(plane.samples.shape, shape) for plane, shape in zip(planes, expected, strict=True)
    ):
        raise UnsafeFrameError(
            f"the planes of a {picture.width_px}x{picture.height_px} {picture.layout} picture are "
            f"{[plane.samples.shape for plane in planes]}, expected {list(expected)}: it cannot be hidden"
        )
    try:
        if not fits(picture):
            raise ValueError("planes do not fit the picture")
        bounds = (0, 0, picture.width_px, picture.height_px)
        Pixelate(_BLOCKS).paint(picture, Mask(bounds, bounds, None))
    except Exception:  # whatever went wrong, nothing of this picture may stay
        try:
            for plane in planes:
                plane.samples[...] = 0 if plane is planes[0] else _NO_COLOR
        except Exception as error:
            raise UnsafeFrameError(
                f"a {picture.width_px}x{picture.height_px} {picture.layout} picture cannot be overwritten: {error}"
            ) from error


def plane_shapes(picture: Picture) -> tuple[tuple[int, ...], ...]:
    """Shapes of the samples that a picture of this layout and size must have."""
    height, width = picture.height_px, picture.width_px
    if picture.layout == "nv12":
        return (height, width), (-(-height // 2), -(-width // 2), 2)
    if picture.layout == "gray":
        return ((height, width),)
    return ((height, width, 4 if picture.layout == "bgra" else 3),)


def fits(picture: Picture) -> bool:
    """Whether planes, steps and sample types are as the layout demands and can be written to."""
    steps = ((1, 1), (2, 2)) if picture.layout == "nv12" else ((1, 1),)
    expected = plane_shapes(picture)
    return (
        picture.width_px > 0
        and picture.height_px > 0
        and len(picture.planes) == len(expected)
        and all(
            plane.samples.shape == shape
            and (plane.step_x, plane.step_y) == step
            and plane.samples.dtype.str in _SAMPLE_TYPES
            and plane.samples.flags.writeable
            for plane, shape, step in zip(picture.planes, expected, steps, strict=True)
        )
    )



def _holds(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(shape) == len(wanted) and all(have >= want for have, want in zip(shape, wanted, strict=True))
