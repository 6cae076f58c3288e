"""Promise P1, the part of the gate: no way from a frame to a SafeFrame without a mask."""

from __future__ import annotations

import ast
import copy
import math
import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge.anonymize.gate import Anonymizer, SafeFrame
from edge.errors import UnsafeFrameError, UsageError
from edge.settings import MaskSettings, Zone
from edge.types import Layout, Picture, Plane, Region
from tests.harness.frames import copies, face, frame, noise

EDGE = Path(__file__).parents[3] / "edge"
GATE = EDGE / "anonymize" / "gate.py"


def is_coarse(picture: Picture) -> bool:
    """Whether at most 12 x 12 different patches are left on every plane."""
    return all(_patches(plane.samples, 0) <= 12 and _patches(plane.samples, 1) <= 12 for plane in picture.planes)


def _patches(samples: Any, axis: int) -> int:
    steps = np.diff(samples.astype(int), axis=axis) != 0
    return 1 + int(np.count_nonzero(steps.any(axis=tuple(i for i in range(samples.ndim) if i != axis))))


def test_p1_a_safe_frame_can_only_come_from_the_gate() -> None:
    picture = noise(32, 32)
    with pytest.raises(UnsafeFrameError):
        SafeFrame(object(), frame(picture), "regions", 0, 0.0)
    with pytest.raises(UnsafeFrameError):
        SafeFrame(None, frame(picture), "whole", 0, 1.0)
    safe = Anonymizer(MaskSettings()).apply(frame(picture), [])
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(UnsafeFrameError):
            attempt(safe)
    with pytest.raises((AttributeError, TypeError)):
        safe.frame = frame(picture)     # type: ignore[attr-defined]


FORBIDDEN_NAMES = {"_SEAL"}
FORBIDDEN_CALLS = {"SafeFrame", "object.__new__", "SafeFrame.__new__", "copyreg.__newobj__"}


def violations(source: str, name: str) -> list[str]:
    """Places that make a SafeFrame, reach for its seal, or reach into it."""
    found = []
    for node in ast.walk(ast.parse(source)):
        what = ""
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in FORBIDDEN_CALLS or called.endswith((".SafeFrame", ".__new__")):
                what = called
            elif called in ("getattr", "setattr", "object.__setattr__") and "_SEAL" in ast.unparse(node):
                what = ast.unparse(node)
        elif isinstance(node, ast.ClassDef) and any("SafeFrame" in ast.unparse(base) for base in node.bases):
            what = f"class {node.name}"
        elif isinstance(node, ast.Name | ast.Attribute):
            last = node.id if isinstance(node, ast.Name) else node.attr
            what = last if last in FORBIDDEN_NAMES else ""
        elif isinstance(node, ast.alias) and node.name in FORBIDDEN_NAMES:
            what = node.name
        elif isinstance(node, ast.ImportFrom):
            renamed = [alias for alias in node.names if alias.name == "SafeFrame" and alias.asname is not None]
            what = "SafeFrame under another name" if renamed else ""
        if what:
            found.append(f"{name}:{getattr(node, 'lineno', '?')} {what}")
    return found


def test_p1_nothing_else_in_the_tree_makes_safe_frames() -> None:
    files = sorted(EDGE.rglob("*.py"))
    assert GATE in files
    others = [path for path in files if path != GATE]
    assert [each for path in others for each in violations(path.read_text(), str(path.relative_to(EDGE)))] == []


@pytest.mark.parametrize(
    "code",
    [
        "SafeFrame(None, frame, 'regions', 0, 0.0)",
        "gate.SafeFrame(gate._SEAL, frame, 'regions', 0, 0.0)",
        "object.__new__(SafeFrame)",
        "cls.__new__(cls)",
        "from edge.anonymize.gate import _SEAL",
        "from edge.anonymize.gate import SafeFrame as Passed",
        "class Passed(SafeFrame): pass",
        "getattr(gate, '_SEAL')",
    ],
)
def test_p1_the_walk_sees_ways_around(code: str) -> None:
    assert violations(code, "code") != []


def test_p1_the_gate_makes_safe_frames_in_two_places_only() -> None:
    tree = ast.parse(GATE.read_text())
    makers = [
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "SafeFrame"
    ]
    assert sorted(makers) == ["apply", "redact"]


def test_a_safe_frame_is_taken_once() -> None:
    original = frame(noise(32, 32))
    safe = Anonymizer(MaskSettings()).apply(original, [face(5, 5, 20, 20)])
    assert (safe.redaction, safe.regions) == ("regions", 1)
    assert 0.2 < safe.masked_share < 0.5
    assert safe.take() is original
    with pytest.raises(UnsafeFrameError):
        safe.take()


def test_only_one_thread_gets_a_safe_frame() -> None:
    safe = Anonymizer(MaskSettings()).apply(frame(noise(8, 8)), [])
    got: list[object] = []
    start = threading.Barrier(8)

    def take() -> None:
        start.wait()
        try:
            got.append(safe.take())
        except UnsafeFrameError:
            got.append(None)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each is not None for each in got) == 1


BAD_BOXES = {
    "NaN": (math.nan, 0, 10, 10),
    "infinite": (0, 0, math.inf, 10),
    "back to front": (40, 0, 10, 10),
    "absurd": (-1e12, 0, 1e12, 10),
    "not numbers": ("a", 0, 1, 2),
    "too short": (1, 2, 3),
    "none": None,
}


@pytest.mark.parametrize("box", BAD_BOXES.values(), ids=list(BAD_BOXES))
@pytest.mark.parametrize("layout", ["nv12", "bgr", "bgra", "gray"])
def test_p1_a_bad_region_hides_the_whole_frame(box: Any, layout: Layout) -> None:
    picture = noise(101, 75, layout)
    safe = Anonymizer(MaskSettings()).apply(frame(picture), [face(5, 5, 20, 20), Region(box, 2, "held")])
    assert (safe.redaction, safe.masked_share) == ("whole", 1.0)
    assert safe.reason
    assert is_coarse(picture)


def test_p1_a_damaged_frame_is_hidden_whole_whatever_the_regions() -> None:
    picture = noise(101, 75)
    safe = Anonymizer(MaskSettings()).apply(frame(picture, damaged=True), [face(5, 5, 20, 20)])
    assert (safe.redaction, safe.reason) == ("whole", "damaged")
    assert is_coarse(picture)


def test_p1_never_zones_do_not_survive_a_whole_mask() -> None:
    picture = noise(101, 75)
    zone = Zone("never", ((0, 0), (1, 0), (1, 1), (0, 1)))
    assert Anonymizer(MaskSettings(zones=(zone,))).redact(frame(picture), "cold start").reason == "cold start"
    assert is_coarse(picture)


class Failing:
    """A method that paints a little and then raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def paint(self, picture: Picture, mask: object, landmarks: object = None) -> None:
        picture.planes[0].samples[0, 0] = 0
        raise self.error


@pytest.mark.parametrize("error", [ValueError("x"), MemoryError(), ZeroDivisionError(), KeyError("k")], ids=repr)
def test_p1_a_method_that_raises_hides_the_whole_frame(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    anonymizer = Anonymizer(MaskSettings())
    monkeypatch.setattr(anonymizer, "_method", Failing(error))
    picture = noise(64, 48)
    assert anonymizer.apply(frame(picture), [face(5, 5, 20, 20)]).redaction == "whole"
    assert is_coarse(picture)


def _read_only(picture: Picture) -> Picture:
    picture.planes[-1].samples.setflags(write=False)
    return picture


def _with_planes(change: Callable[[Picture], tuple[Plane, ...]]) -> Callable[[Picture], Picture]:
    return lambda picture: replace(picture, planes=change(picture))


OUT_OF_REACH: dict[str, Callable[[Picture], Picture]] = {
    "read-only chroma": _read_only,
    "chroma missing": _with_planes(lambda picture: picture.planes[:1]),
    "no planes": _with_planes(lambda picture: ()),
    "a plane too many": _with_planes(lambda picture: (*picture.planes, picture.planes[1])),
    "luma too small": _with_planes(lambda picture: (Plane(picture.planes[0].samples[:-1]), picture.planes[1])),
    "chroma without pairs": _with_planes(
        lambda picture: (picture.planes[0], Plane(picture.planes[1].samples[..., 0], 2, 2))
    ),
    "not an array": _with_planes(lambda picture: (picture.planes[0], Plane(None, 2, 2))),   # type: ignore[arg-type]
}


@pytest.mark.parametrize("change", OUT_OF_REACH.values(), ids=list(OUT_OF_REACH))
@pytest.mark.parametrize("regions", [[], [face(5, 5, 20, 20)]], ids=["no face", "a face"])
def test_p1_a_frame_that_cannot_be_hidden_is_refused(
    change: Callable[[Picture], Picture], regions: list[Region]
) -> None:
    with pytest.raises(UnsafeFrameError):
        Anonymizer(MaskSettings()).apply(frame(change(noise(64, 48))), regions)


WRONG_BUT_IN_REACH: dict[str, Callable[[Picture], Picture]] = {
    "luma too large": _with_planes(lambda picture: (noise(70, 50).planes[0], picture.planes[1])),
    "wrong steps": _with_planes(lambda picture: (picture.planes[0], Plane(picture.planes[1].samples))),
    "floats": _with_planes(
        lambda picture: tuple(replace(plane, samples=plane.samples.astype(np.float32)) for plane in picture.planes)
    ),
    "picture said to be smaller": lambda picture: replace(picture, width_px=60, height_px=40),
}


@pytest.mark.parametrize("change", WRONG_BUT_IN_REACH.values(), ids=list(WRONG_BUT_IN_REACH))
def test_p1_planes_that_do_not_fit_are_made_flat(change: Callable[[Picture], Picture]) -> None:
    picture = change(noise(64, 48))
    assert Anonymizer(MaskSettings()).apply(frame(picture), []).redaction == "whole"
    assert all(np.unique(plane.samples).size == 1 for plane in picture.planes)


def test_planes_in_unusual_memory_are_still_masked() -> None:
    """Upside-down planes (negative strides), which cv2 does not write to."""
    base = noise(64, 48)
    flipped = replace(base, planes=tuple(replace(plane, samples=plane.samples[::-1]) for plane in base.planes))
    before = copies(flipped)
    safe = Anonymizer(MaskSettings()).apply(frame(flipped), [face(20, 10, 40, 30)])
    assert safe.redaction == "whole" or (flipped.planes[0].samples[20, 25:35] != before[0][20, 25:35]).any()


@pytest.mark.parametrize("size", [(1, 1), (1, 400), (400, 1), (3, 5), (641, 361), (1920, 200)], ids=str)
@pytest.mark.parametrize("layout", ["nv12", "gray"])
def test_whole_masks_at_any_size(size: tuple[int, int], layout: Layout) -> None:
    picture = noise(*size, layout)
    before = copies(picture)
    Anonymizer(MaskSettings()).redact(frame(picture), "test")
    for plane, old in zip(picture.planes, before, strict=True):
        assert _patches(plane.samples, 0) <= 32 and _patches(plane.samples, 1) <= 58
        assert min(_patches(plane.samples, 0), _patches(plane.samples, 1)) <= 6
        assert np.abs(plane.samples.astype(float).mean() - old.mean()) <= 8     # rounded means, not black


@pytest.mark.parametrize(
    "settings",
    [
        MaskSettings(mask_scale=0.5),
        MaskSettings(mask_scale=math.nan),
        MaskSettings(mask_scale=math.inf),
        MaskSettings(blocks=0),
        MaskSettings(blocks=100),
        MaskSettings(color=(0, 0, 300)),
        MaskSettings(method="image"),
        MaskSettings(method="none"),    # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_p1_settings_that_would_not_hide_a_face_are_refused(settings: MaskSettings) -> None:
    with pytest.raises(UsageError):
        Anonymizer(settings)


def test_a_face_outside_the_picture_is_not_counted() -> None:
    picture = noise(64, 48)
    before = copies(picture)
    safe = Anonymizer(MaskSettings()).apply(frame(picture), [face(500, 0, 520, 20)])
    assert (safe.redaction, safe.regions, safe.masked_share) == ("regions", 0, 0.0)
    np.testing.assert_array_equal(picture.planes[0].samples, before[0])
