"""Zones: their text, their pixels, and which of them wins."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edge.anonymize.gate import Anonymizer
from edge.anonymize.zone_masks import zone_masks
from edge.anonymize.zones import parse_zone
from edge.errors import UsageError
from edge.settings import MaskSettings, Zone
from tests.harness.frames import changed, copies, face, frame, noise

Array = npt.NDArray[Any]


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("always:0,0;1,0;1,1", Zone("always", ((0, 0), (1, 0), (1, 1)))),
        ("never:0.1,0.2;0.3,0.2;0.3,0.9;", Zone("never", ((0.1, 0.2), (0.3, 0.2), (0.3, 0.9)))),
        (" Always : 10%,20% ; 30% , 20% ; .3,.9 ", Zone("always", ((0.1, 0.2), (0.3, 0.2), (0.3, 0.9)))),
    ],
)
def test_zones_are_read(text: str, zone: Zone) -> None:
    assert parse_zone(text) == zone


@pytest.mark.parametrize(
    "text",
    [
        "",
        "always",
        "always:",
        "sometimes:0,0;1,0;1,1",
        "0,0;1,0;1,1",
        "always:0,0;1,1",
        "always:0,0;1,0;1",
        "always:0,0;1,0;1,1,1",
        "always:0,0;1,0;1.01,1",
        "always:-0.1,0;1,0;1,1",
        "always:0,0;101%,0;1,1",
        "always:nan,0;1,0;1,1",
        "always:inf,0;1,0;1,1",
        "always:a,b;1,0;1,1",
        "always:0,0;0.5,0.5;1,1",
        "always:0.5,0.5;0.5,0.5;0.5,0.5",
        "always:" + "0,0;1,0;1,1;" * 1000,
    ],
)
def test_bad_zones_are_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(UsageError, match="three corners") as caught:
        parse_zone(text)
    assert caught.value.exit_code == 64
    assert len(str(caught.value)) < 400


RECTANGLE = ((0.25, 0.25), (0.75, 0.25), (0.75, 0.75), (0.25, 0.75))


def hidden(width: int, height: int, *zones: Zone, faces: Any = (), layout: Any = "nv12") -> list[Array]:
    picture = noise(width, height, layout)
    before = copies(picture)
    settings = MaskSettings(method="solid", color=(255, 255, 0), shape="box", mask_scale=1.0, zones=zones)
    safe = Anonymizer(settings).apply(frame(picture), faces)
    assert safe.redaction == "regions", safe.reason
    return changed(before, picture)


@pytest.mark.parametrize("layout", ["nv12", "bgr"])
@pytest.mark.parametrize("size", [(80, 40), (81, 41), (79, 43)], ids=str)
def test_an_always_zone_is_masked_in_every_frame(size: tuple[int, int], layout: Any) -> None:
    width, height = size
    luma = hidden(width, height, Zone("always", RECTANGLE), layout=layout)[0]
    columns, rows = np.arange(width) + 0.5, (np.arange(height) + 0.5)[:, None]
    inside = (abs(columns / width - 0.5) < 0.25) & (abs(rows / height - 0.5) < 0.25)
    assert luma[inside].all()
    near = (abs(columns / width - 0.5) < 0.25 + 2 / width) & (abs(rows / height - 0.5) < 0.25 + 2 / height)
    assert not luma[~near].any()


@pytest.mark.parametrize("size", [(80, 40), (81, 41), (1, 1), (3, 200)], ids=str)
def test_an_always_zone_reaches_the_last_row_and_column(size: tuple[int, int]) -> None:
    assert all(plane.all() for plane in hidden(*size, Zone("always", ((0, 0), (1, 0), (1, 1), (0, 1)))))


def test_an_outline_that_crosses_itself_encloses_all_it_goes_around() -> None:
    star = tuple((0.5 + 0.45 * np.sin(i * 4 * np.pi / 5), 0.5 - 0.45 * np.cos(i * 4 * np.pi / 5)) for i in range(5))
    luma = hidden(100, 100, Zone("always", star))[0]
    assert luma[50, 50]     # the pentagon in the middle, outside by the even-odd rule


def test_a_never_zone_keeps_faces_in_it_visible_but_for_its_edge() -> None:
    luma, chroma = hidden(80, 40, Zone("never", RECTANGLE), faces=[face(0, 0, 80, 40)])
    assert not luma[12:28, 22:58].any()
    outside = np.ones((40, 80), bool)
    outside[10:30, 20:60] = False
    assert luma[outside].all()
    np.testing.assert_array_equal(chroma, luma.reshape(20, 2, 40, 2).any(axis=(1, 3)))


def test_a_face_entirely_in_a_never_zone_is_not_masked() -> None:
    picture = noise(80, 40)
    settings = MaskSettings(zones=(Zone("never", RECTANGLE),))
    safe = Anonymizer(settings).apply(frame(picture), [face(35, 16, 45, 24)])
    assert (safe.redaction, safe.regions, safe.masked_share) == ("regions", 0, 0.0)


def test_always_wins_over_never() -> None:
    zones = (Zone("never", ((0, 0), (1, 0), (1, 1), (0, 1))), Zone("always", RECTANGLE))
    luma = hidden(80, 40, *zones, faces=[face(0, 0, 80, 40)])[0]
    assert luma[11:29, 21:59].all()
    assert not luma[:9].any()


def test_blocks_of_a_narrow_zone_are_coarse() -> None:
    zone = Zone("always", ((0, 0.5), (1, 0.5), (1, 0.52), (0, 0.52)))
    mask = zone_masks([zone], 1920, 1080, 2).always[0]
    assert mask.min_block_px == 67


def test_zones_follow_the_size_of_the_picture() -> None:
    anonymizer = Anonymizer(MaskSettings(zones=(Zone("always", RECTANGLE),)))
    for width, height in ((80, 40), (160, 90), (80, 40)):
        picture = noise(width, height)
        safe = anonymizer.apply(frame(picture), [])
        assert safe.regions == 1
        assert 0.2 < safe.masked_share < 0.3
