"""Status and health files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edge.reports import CameraReport, ServiceStatus, from_plain
from edge.service.health import health_line, remove_status, write_status


def status(state: str, *problems: str) -> ServiceStatus:
    return ServiceStatus("1", 1, state, "", "2026-01-02T03:04:05Z", 1.0, "", "", problems=list(problems))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (status("running"), "ok 2026-01-02T03:04:05Z"),
        (status("starting"), "starting 2026-01-02T03:04:05Z"),
        (status("degraded", "porch: away", "disk: low"), "degraded 2026-01-02T03:04:05Z: porch: away; disk: low"),
    ],
)
def test_health(given: ServiceStatus, line: str) -> None:
    assert health_line(given) == line


def test_files_are_replaced_as_a_whole(tmp_path: Path) -> None:
    given = status("degraded", "bad \ud800 text")
    given.cameras.append(CameraReport("porch", "recording"))
    write_status(tmp_path, given)
    opened = (tmp_path / "status.json").open()
    write_status(tmp_path, status("running"))
    with opened:
        assert from_plain(json.load(opened)) == given           # who had it open still reads the old one
    assert (tmp_path / "health").read_text() == "ok 2026-01-02T03:04:05Z\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["health", "status.json"]
    remove_status(tmp_path)
    assert list(tmp_path.iterdir()) == []
