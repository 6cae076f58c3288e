"""When the supervisor waits, when it kills, when the watchdog is fed: decisions without processes."""

from __future__ import annotations

import selectors

import pytest

from edge.reports import CameraReport, InferenceReport, KeeperReport
from edge.supervisor.backoff import Backoff
from edge.supervisor.child import Child
from edge.supervisor.limits import StateReport, hang
from edge.supervisor.liveness import not_alive
from edge.supervisor.plans import Plan


def test_waiting_doubles_to_a_limit_and_starts_over_after_a_good_run() -> None:
    backoff = Backoff()
    waits = [backoff.after_run(1.0) for _ in range(10)]
    for wait_s, full_s in zip(waits, (0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30), strict=True):
        assert 0.75 * full_s <= wait_s <= full_s
    assert len({round(wait_s, 6) for wait_s in waits[6:]}) > 1         # jitter
    assert backoff.after_run(61.0) <= 0.5
    backoff.after_run(1.0)
    backoff.reset()
    assert backoff.after_run(1.0) <= 0.5


def camera(state: str) -> CameraReport:
    return CameraReport("porch", state)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("report", "silent_s", "unchanged_s", "hangs"),
    [
        (None, 44.0, 44.0, ""),
        (None, 46.0, 46.0, "gave no sign of life for 46 s"),
        (camera("connecting"), 44.0, 44.0, ""),
        (camera("connecting"), 1.0, 9999.0, ""),
        (camera("recording"), 14.0, 14.0, ""),
        (camera("recording"), 16.0, 16.0, "gave no sign of life for 16 s"),
        (camera("recording"), 1.0, 24.0, ""),
        (camera("recording"), 1.0, 26.0, "made no progress for 26 s"),
        (camera("backing_off"), 1.0, 9999.0, ""),
        (camera("disk_paused"), 1.0, 9999.0, ""),
        (camera("off_schedule"), 16.0, 9999.0, "gave no sign of life for 16 s"),
        (InferenceReport("loading"), 44.0, 44.0, ""),
        (InferenceReport("ready"), 1.0, 31.0, "made no progress for 31 s"),
        (InferenceReport("ready"), 16.0, 16.0, "gave no sign of life for 16 s"),
        (KeeperReport("recovering"), 44.0, 44.0, ""),
        (KeeperReport("watching"), 1.0, 9999.0, ""),
        (KeeperReport("watching"), 16.0, 16.0, "gave no sign of life for 16 s"),
    ],
)
def test_hang(report: StateReport | None, silent_s: float, unchanged_s: float, hangs: str) -> None:
    assert hang(report, silent_s, unchanged_s, stall_timeout_s=10.0) == hangs


def child(name: str, kind: type[CameraReport] | type[InferenceReport], hangs: tuple[float, ...] = (),
          state: str = "running", since_s: float = 0.0) -> Child:  # fmt: skip
    made = Child(Plan(name, "", kind, None, None), selectors.DefaultSelector(), lambda event: None, lambda: since_s)
    made._selector.close()
    made.hung_s.extend(hangs)
    made.state = state  # type: ignore[assignment]
    return made


INFERENCE_HANGS = "the inference process hung 5 times within 10 minutes"
CAMERAS_HANG = "every camera process hangs again and again"
FIVE = (401.0, 500.0, 600.0, 700.0, 800.0)


@pytest.mark.parametrize(
    ("children", "why"),
    [
        ([], ""),
        ([child("inference", InferenceReport), child("a", CameraReport)], ""),
        ([child("inference", InferenceReport, FIVE)], INFERENCE_HANGS),
        ([child("inference", InferenceReport, FIVE[1:])], ""),
        ([child("inference", InferenceReport, (100.0, *FIVE[1:]))], ""),
        ([child("inference", InferenceReport, state="killed", since_s=930.0)],
         "the inference process cannot be killed"),
        ([child("inference", InferenceReport, state="killed", since_s=950.0)], ""),
        ([child("inference", CameraReport, FIVE), child("b", CameraReport)], ""),      # a camera of that name
        ([child("a", CameraReport, FIVE), child("b", CameraReport)], ""),
        ([child("a", CameraReport, FIVE), child("b", CameraReport, FIVE)], CAMERAS_HANG),
        ([child("a", CameraReport, FIVE), child("b", CameraReport, state="failed")], CAMERAS_HANG),
        ([child("a", CameraReport, state="failed"), child("b", CameraReport, state="backing_off")], ""),
    ],
)  # fmt: skip
def test_watchdog_is_fed_as_long_as_restarts_help(children: list[Child], why: str) -> None:
    assert not_alive(children, now_s=1000.0) == why
