"""A check that crashes, hangs or is defect is a finding, and the next one runs."""

from __future__ import annotations

import time

import pytest

from edge.cameras import ServiceSettings
from edge.doctor.checks import Check
from edge.doctor.finding import Finding
from edge.doctor.isolated import run


def outcome(function: str, limit_s: float = 20) -> list[Finding]:
    return run(Check("ill", f"tests.harness.ill_checks:{function}", limit_s), ServiceSettings((), metrics_port=1234))


def test_settings_go_in_and_findings_come_out_and_nothing_else() -> None:
    assert outcome("fine") == [Finding("ok", "metrics on 1234")]


@pytest.mark.parametrize(
    ("function", "text"),
    [("crash", "ended by SIGSEGV"), ("leave", "ended by exit code 3"), ("raise_expected", "GStreamer is missing"),
     ("raise_unexpected", "could not be checked: ValueError")],
)  # fmt: skip
def test_what_goes_wrong_is_a_finding(function: str, text: str) -> None:
    (finding,) = outcome(function)
    assert finding.level == "error"
    assert text in finding.text
    assert finding.remedy
    assert "hunter2" not in finding.text + finding.remedy


def test_a_hang_ends_in_time_with_everything_that_it_started() -> None:
    started_s = time.monotonic()
    (finding,) = outcome("hang", 1.5)
    assert time.monotonic() - started_s < 6
    assert finding.text == "gives no answer within 1.5 s"
