"""What stands where the face was."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from edge.anonymize.blocks import block_counts, grid, level_step
from edge.anonymize.color import plane_values
from edge.anonymize.gate import Anonymizer
from edge.anonymize.masks import face_mask
from edge.anonymize.overlay import EYES, placement
from edge.errors import InputError
from edge.settings import MaskSettings, Method
from edge.types import Layout, Picture
from tests.harness.frames import bgr_from_nv12, changed, copies, face, frame, noise, nv12_from_bgr

Array = npt.NDArray[Any]


def anonymise(picture: Picture, settings: MaskSettings, *boxes: tuple[float, float, float, float], **more: Any) -> None:
    safe = Anonymizer(settings).apply(frame(picture), [face(*box, **more) for box in boxes])
    assert safe.redaction == "regions", safe.reason


@pytest.mark.parametrize("layout", ["nv12", "bgr", "bgra", "gray"])
@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize(
    "box", [(20, 12, 80, 72), (-30, -20, 30, 40), (90, 60, 150, 120), (-50, -50, 200, 200)], ids=str
)
def test_a_block_is_the_mean_of_its_samples_in_few_levels(box: tuple[float, ...], depth: int, layout: Layout) -> None:
    if layout == "nv12" and depth == 16:
        pytest.skip("NV12 has 8 bits")
    picture = noise(121, 91, layout, depth=depth)
    before = copies(picture)
    mask = face_mask((box[0], box[1], box[2], box[3]), picture, 1.0, "box")
    assert mask is not None
    columns, rows = grid(mask, 6, 2 if layout == "nv12" else 1)
    anonymise(picture, MaskSettings(blocks=6, shape="box", mask_scale=1.0), (box[0], box[1], box[2], box[3]))
    left, top = mask.visible[:2]
    for plane, old in zip(picture.planes, before, strict=True):
        for y1, y2 in pairwise(rows):
            for x1, x2 in pairwise(columns):
                step = plane.step_x
                part = np.s_[(top + y1) // step : -(-(top + y2) // step), (left + x1) // step : -(-(left + x2) // step)]
                mean = old[part].reshape(-1, *old.shape[2:]).mean(axis=0)
                level = plane.samples[part].astype(float) / (257 if depth == 16 else 1)
                assert np.abs(level - mean / (257 if depth == 16 else 1)).max() <= level_step(plane) / 2 + 0.01
                assert not (level[level < 255] % level_step(plane)).any()


@pytest.mark.parametrize(
    ("width", "height", "across", "down"),
    [
        (130, 130, 6, 6),
        (130, 195, 6, 9),
        (195, 130, 9, 6),
        (24, 24, 6, 6),
        (16, 16, 4, 4),
        (12, 12, 3, 3),
        (8, 8, 2, 2),
        (7, 7, 1, 1),
        (8, 4000, 2, 32),
        (1, 9, 1, 2),
    ],
)
def test_small_faces_keep_fewer_blocks(width: int, height: int, across: int, down: int) -> None:
    assert block_counts(width, height, 6, 4) == (across, down)


def test_the_border_cuts_blocks_and_does_not_shrink_them() -> None:
    picture = noise(100, 100)
    whole = face_mask((20, 20, 80, 80), picture, 1.0, "box")
    cut = face_mask((-28, 20, 32, 80), picture, 1.0, "box")
    assert whole is not None and cut is not None
    assert np.diff(grid(whole, 6, 2)[0]).tolist() == [10] * 6
    assert np.diff(grid(cut, 6, 2)[0]).tolist() == [2, 10, 10, 10]


@pytest.mark.parametrize("method", ["pixelate", "blur"])
def test_as_few_values_are_left_as_there_are_blocks(method: Method) -> None:
    """The masked picture is a linear function of the block means: its rank over many faces is their number."""
    results = []
    for seed in range(60):
        picture = noise(48, 48, "gray", seed)
        anonymise(picture, MaskSettings(method=method, shape="box", mask_scale=1.0), (0, 0, 48, 48))
        results.append(picture.planes[0].samples.ravel().astype(float))
    deviations = np.array(results) - np.mean(results, axis=0)
    singular = np.linalg.svd(deviations, compute_uv=False)
    # beyond 36 there is only rounding (at most 0.5 a sample, over 48 x 48 samples)
    assert singular[36] < 0.5 * 48 * 2.5
    assert singular[20] > singular[36] * (3 if method == "pixelate" else 1.2)


def test_blur_has_no_edges_inside() -> None:
    picture = noise(120, 120, "gray")
    anonymise(picture, MaskSettings(method="blur", shape="box", mask_scale=1.0), (0, 0, 120, 120))
    smooth = picture.planes[0].samples.astype(int)
    assert max(np.abs(np.diff(smooth, axis=0)).max(), np.abs(np.diff(smooth, axis=1)).max()) <= 2


@pytest.mark.parametrize(
    ("rgb", "matrix", "full", "ycbcr"),
    [   # ITU-R BT.601 and BT.709 colour bars at 100 %; BT.2020 and full range from the same equations by hand
        ((255, 0, 0), "bt601", False, (81, 90, 240)),
        ((0, 255, 0), "bt601", False, (145, 54, 34)),
        ((0, 0, 255), "bt601", False, (41, 240, 110)),
        ((255, 255, 255), "bt601", False, (235, 128, 128)),
        ((0, 0, 0), "bt601", False, (16, 128, 128)),
        ((255, 0, 0), "bt709", False, (63, 102, 240)),
        ((0, 255, 0), "bt709", False, (173, 42, 26)),
        ((255, 0, 0), "bt601", True, (76, 85, 255)),
        ((0, 0, 0), "bt709", True, (0, 128, 128)),
        ((255, 0, 0), "bt2020", False, (74, 97, 240)),
    ],
)
def test_colours(rgb: tuple[int, int, int], matrix: str, full: bool, ycbcr: tuple[int, int, int]) -> None:
    base = noise(4, 4)
    picture = Picture(4, 4, "nv12", base.planes, matrix, full)  # type: ignore[arg-type]
    luma, chroma = plane_values(rgb, picture)
    assert (int(luma), int(chroma[0]), int(chroma[1])) == ycbcr


def test_solid_colours_of_packed_pictures() -> None:
    for layout, depth, wanted in (("bgr", 8, [3, 2, 1]), ("bgra", 8, [3, 2, 1, 255]), ("bgr", 16, [771, 514, 257])):
        picture = noise(20, 20, layout, depth=depth)    # type: ignore[arg-type]
        anonymise(picture, MaskSettings(method="solid", color=(1, 2, 3)), (0, 0, 20, 20))
        assert picture.planes[0].samples[10, 10].tolist() == wanted


@pytest.mark.parametrize("method", ["pixelate", "blur", "solid"])
def test_overlapping_faces_stay_hidden(method: Method) -> None:
    """Everything under either mask is changed, in either order."""
    boxes = ((10, 10, 50, 50), (30, 30, 80, 80))
    for order in (boxes, boxes[::-1]):
        picture = noise(96, 96)
        before = copies(picture)
        anonymise(picture, MaskSettings(method=method, shape="box", mask_scale=1.0), *order)
        hidden = changed(before, picture)[0]
        for x1, y1, x2, y2 in boxes:
            assert hidden[y1:y2, x1:x2].mean() > 0.98   # a mean can equal the sample that it replaces


@pytest.fixture
def dots(tmp_path: Path) -> Path:
    """Opaque red with a green dot on each eye."""
    image = np.zeros((200, 200, 4), np.uint8)
    image[...] = (0, 0, 255, 255)
    for x, y in EYES:
        cv2.circle(image, (round(x * 200), round(y * 200)), 12, (0, 255, 0, 255), -1)
    path = tmp_path / "dots.png"
    cv2.imwrite(str(path), image)
    return path


@pytest.mark.parametrize(("matrix", "full"), [("bt601", False), ("bt709", True)])
def test_overlay_lands_on_the_eyes_in_the_right_colours(dots: Path, matrix: Any, full: bool) -> None:
    picture = nv12_from_bgr(np.full((240, 320, 3), 128, np.uint8), matrix, full)
    eyes = ((140.0, 110.0), (180.0, 130.0))
    anonymise(picture, MaskSettings(method="image", image=dots), (110, 70, 210, 190), landmarks=eyes)
    seen = bgr_from_nv12(picture).astype(int)
    for x, y in eyes:
        assert np.abs(seen[round(y), round(x)] - (0, 255, 0)).max() <= 6
        around = seen[int(y) - 12 : int(y) + 12, int(x) - 12 : int(x) + 12]
        rows, columns = np.nonzero(around[..., 1] > 128)    # centre of the dot, to a third of a pixel
        assert abs(columns.mean() + 0.5 - 12) < 0.35 and abs(rows.mean() + 0.5 - 12) < 0.35
    assert np.abs(seen[150, 160] - (0, 0, 255)).max() <= 6
    assert np.abs(seen[20, 20] - 128).max() <= 1


def test_a_transparent_overlay_shows_no_face(tmp_path: Path) -> None:
    path = tmp_path / "clear.png"
    cv2.imwrite(str(path), np.zeros((50, 50, 4), np.uint8))
    shown, plain = noise(100, 80), noise(100, 80)
    anonymise(shown, MaskSettings(method="image", image=path), (20, 20, 60, 60))
    anonymise(plain, MaskSettings(method="pixelate"), (20, 20, 60, 60))
    for one, other in zip(shown.planes, plain.planes, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)


@pytest.mark.parametrize("layout", ["nv12", "bgr", "bgra", "gray"])
@pytest.mark.parametrize(
    "box", [(-30, -30, 20, 20), (90, 70, 140, 120), (-100, -100, 300, 300), (50, 40, 50, 40)], ids=str
)
def test_overlays_across_the_border(dots: Path, layout: Layout, box: tuple[float, float, float, float]) -> None:
    anonymise(noise(101, 81, layout), MaskSettings(method="image", image=dots), box)


@pytest.mark.parametrize(
    "eyes",
    [
        None,
        ((0.0, 0.0), (0.0, 0.0)),
        ((math.nan, 0.0), (30.0, 0.0)),
        ((0.0, 0.0), (1e9, 0.0)),
        ((40.0, 40.0), (42.0, 40.0)),
    ],
    ids=["none", "one point", "NaN", "far apart", "profile"],
)
def test_without_usable_eyes_the_overlay_fills_the_mask(eyes: tuple[tuple[float, float], ...] | None) -> None:
    matrix = placement(200, 100, (10, 20, 110, 220), eyes)
    np.testing.assert_allclose(matrix @ (0, 0, 1), (10, 20))
    np.testing.assert_allclose(matrix @ (200, 100, 1), (110, 220))


def test_an_overlay_that_is_no_picture_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.png"
    text.write_text("no picture")
    for path in (text, tmp_path / "missing.png", tmp_path):
        with pytest.raises(InputError):
            Anonymizer(MaskSettings(method="image", image=path))


def test_the_outline_runs_around_the_mask() -> None:
    picture = nv12_from_bgr(np.full((101, 151, 3), 90, np.uint8))
    anonymise(picture, MaskSettings(outline=True, mask_scale=1.0), (20, 20, 60, 80), (120, 60, 170, 120))
    seen = bgr_from_nv12(picture).astype(int)
    green = np.abs(seen - (0, 255, 0)).max(axis=2) <= 6
    assert green[20:80, 20:22].all() and green[20:80, 58:60].all()
    assert green[20:22, 20:60].all() and green[78:80, 20:60].all()
    assert green[60:101, 120:122].all() and green[60:62, 120:151].all()
    assert np.count_nonzero(green[22:78, 22:58]) == 0 and np.count_nonzero(green[62:, 122:]) == 0
