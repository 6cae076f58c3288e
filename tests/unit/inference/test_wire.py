"""Packets: what is said arrives, and nothing that comes over a socket raises anything but the errors that are meant."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.detect.candidates import Candidates
from edge.errors import ConfigError, DetectorError, DeviceLostError, EdgeError
from edge.inference.wire import (
    MAX_CANDIDATES,
    Hello,
    LateError,
    Request,
    Welcome,
    WireError,
    pack_error,
    pack_failed,
    pack_found,
    pack_late,
    parse_answer,
)
from edge.models.description import descriptions
from edge.settings import DetectSettings
from tests.harness.default_model import default_description

WANTED = DetectSettings(model="yunet_n", backend="auto", engine_dir=Path("/var/lib/engines"), require_gpu=True)
REQUEST = Request(3, 384, 640, 0.25, 1 << 50, 1 << 20)


def candidates(count: int, landmarks: bool = True) -> Candidates:
    random = np.random.default_rng(count)
    points = random.random((count, 5, 2), np.float32) if landmarks else None
    return Candidates(random.random((count, 4), np.float32), random.random(count, np.float32), points)


def test_what_is_said_arrives() -> None:
    assert Hello.parse(Hello("door-1", WANTED).pack()) == Hello("door-1", WANTED)
    assert Request.parse(REQUEST.pack()) == REQUEST
    for model in descriptions().values():
        welcome = Welcome(model, "why", "runtime", "a" * 64, "")
        assert Welcome.parse(welcome.pack()) == welcome


@pytest.mark.parametrize("count", [0, 1, 7, MAX_CANDIDATES])
@pytest.mark.parametrize("landmarks", [True, False])
def test_candidates_arrive(count: int, landmarks: bool) -> None:
    sent = candidates(count, landmarks)
    found = parse_answer(pack_found(9, sent), 9, landmarks)
    np.testing.assert_array_equal(found.boxes, sent.boxes)
    np.testing.assert_array_equal(found.scores, sent.scores)
    assert (found.landmarks is None) == (not landmarks)
    if landmarks:
        np.testing.assert_array_equal(found.landmarks, sent.landmarks)


def test_of_too_many_candidates_the_best_arrive() -> None:
    sent = candidates(MAX_CANDIDATES + 500)
    found = parse_answer(pack_found(1, sent), 1, landmarks=True)
    np.testing.assert_array_equal(np.sort(found.scores), np.sort(sent.scores)[500:])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(value: float) -> None:
    sent = candidates(4)
    sent.boxes[2, 1] = value
    with pytest.raises(DetectorError, match="not finite"):
        parse_answer(pack_found(1, sent), 1, landmarks=True)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [(ConfigError("stale", "build"), ConfigError), (DeviceLostError("lost"), DetectorError)],
)
def test_errors_arrive(sent: EdgeError, expected: type[EdgeError]) -> None:
    for parse in (lambda: parse_answer(pack_failed(1, sent), 1, True), lambda: Welcome.parse(pack_error(sent))):
        with pytest.raises(expected) as caught:
            parse()
        assert (caught.value.message, caught.value.remedy) == (sent.message, sent.remedy)


def test_late() -> None:
    with pytest.raises(LateError):
        parse_answer(pack_late(5), 5, landmarks=True)


@pytest.mark.parametrize(
    "packet",
    [
        pack_found(2, candidates(3)),
        pack_found(1, candidates(3, landmarks=False)),
        pack_found(1, candidates(3))[:-1],
        pack_found(1, candidates(3)) + b"\0",
        b"",
        b"\1\0\0\0\7\0\0\0",
        b"\1\0\0\0\2\0\0\0{}",
    ],
    ids=["another number", "no landmarks", "cut off", "too long", "empty", "odd status", "an error that is none"],
)
def test_answers_that_are_none(packet: bytes) -> None:
    with pytest.raises(WireError):
        parse_answer(packet, 1, landmarks=True)


BASES = [
    Hello("door", WANTED).pack(),
    REQUEST.pack(),
    Welcome(default_description(), "", "runtime", "", "").pack(),
    pack_found(1, candidates(2)),
    pack_failed(1, ConfigError("a", "b")),
]


CHANGES = st.tuples(st.integers(0, 3000), st.integers(0, 255))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(BASES), st.lists(CHANGES, max_size=6), st.booleans())
def test_changed_packets(base: bytes, changes: list[tuple[int, int]], cut: bool) -> None:
    packet = bytearray(base)
    for place, value in changes:
        packet[place % len(packet)] = value
    if cut and changes:
        del packet[changes[0][0] % len(packet) :]
    content = bytes(packet)
    for parse in (Hello.parse, Request.parse, Welcome.parse, lambda given: parse_answer(given, 1, True)):
        with contextlib.suppress(WireError, EdgeError):
            parse(content)


def test_deep_json_is_refused() -> None:
    with pytest.raises(WireError):
        Hello.parse(b"[" * 30_000)
    with pytest.raises(WireError):
        Welcome.parse(json.dumps({"version": 1, "reason": "x" * 100_000}).encode())
