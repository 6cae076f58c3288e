"""Where pictures lie in detector inputs."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.detect.placement import MAX_SQUASH, place

SQUARE = Fraction(1)


@pytest.mark.parametrize(
    ("size", "aspect", "scale", "whole", "content"),
    [
        ((1920, 1080), SQUARE, 640, (640, 352), (640, 352)),          # squashed by 2 % rather than padded by 6 %
        ((1920, 1080), SQUARE, 320, (320, 192), (320, 180)),
        ((1080, 1920), SQUARE, 640, (352, 640), (352, 640)),
        ((640, 480), SQUARE, 640, (640, 480), (640, 480)),
        ((640, 480), SQUARE, 600, (608, 448), (608, 448)),            # scales are rounded up to the stride
        ((720, 576), Fraction(64, 45), 640, (640, 352), (640, 352)),  # PAL, 16:9
        ((4000, 10), SQUARE, 640, (640, 32), (640, 2)),
    ],
)  # fmt: skip
def test_known_sizes(
    size: tuple[int, int], aspect: Fraction, scale: int, whole: tuple[int, int], content: tuple[int, int]
) -> None:
    placement = place(*size, aspect, scale, 32)
    assert (placement.width_px, placement.height_px) == whole
    assert (placement.content_width_px, placement.content_height_px) == content


@given(
    width=st.integers(1, 8192), height=st.integers(1, 8192), scale=st.integers(32, 2048),
    aspect=st.fractions(Fraction(1, 4), 4, max_denominator=64),
)  # fmt: skip
def test_any_size(width: int, height: int, scale: int, aspect: Fraction) -> None:
    placement = place(width, height, aspect, scale, 32)
    assert placement.width_px % 32 == placement.height_px % 32 == 0
    assert 2 <= placement.content_width_px <= placement.width_px
    assert 2 <= placement.content_height_px <= placement.height_px
    assert placement.content_width_px % 2 == placement.content_height_px % 2 == 0
    assert scale <= max(placement.width_px, placement.height_px) < scale + 32
    # Faces keep their shape, but for rounding to even sizes and the squash that is allowed.
    if min(placement.content_width_px, placement.content_height_px) >= 100:
        shape = placement.scale_x / placement.scale_y / float(aspect)
        assert min(shape, 1 / shape) >= 1 - MAX_SQUASH - 0.011
