"""Disks, rights, cameras on this machine, board and clock: what is wrong is found, and what is right is not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.cameras import (
    CameraSettings,
    CsiSource,
    FileSource,
    RecordingSettings,
    Retention,
    ServiceSettings,
    V4l2Source,
)
from edge.doctor.cameras import check_local_cameras, probe
from edge.doctor.disks import check_root
from edge.doctor.finding import Finding
from edge.doctor.machine import check_board, check_clock
from edge.doctor.rights import check_rights

SMALL = 4 << 20
NOBODY = 65534
NOTHING = ServiceSettings(())


def levels(findings: list[Finding]) -> dict[str, str]:
    return {finding.level: finding.text for finding in findings}


def recording(root: Path, floor: int = 0) -> list[RecordingSettings]:
    return [RecordingSettings(root, retention=Retention(min_free_bytes=floor))]


def test_a_good_disk_is_measured_and_nothing_stays_on_it(tmp_path: Path) -> None:
    found = levels(check_root(tmp_path, recording(tmp_path), SMALL))
    assert "MB/s" in (found.get("ok") or found["warning"])
    assert "error" not in found
    assert list(tmp_path.iterdir()) == []


def test_disks_that_cannot_be_recorded_on(tmp_path: Path) -> None:
    missing, full = tmp_path / "missing", recording(tmp_path, floor=1 << 60)
    assert "is not there" in levels(check_root(missing, recording(missing)))["error"]
    assert "recording pauses under" in levels(check_root(tmp_path, full, SMALL))["error"]


@pytest.mark.parametrize(("options", "level", "text"), [("rw", "warning", "is memory"), ("ro", "error", "read-only")])
def test_kinds_of_mounts(tmp_path: Path, options: str, level: str, text: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    mount = ["mount", "-t", "tmpfs", "-o", f"size=64m,{options}", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        assert text in levels(check_root(tmp_path, recording(tmp_path), SMALL))[level]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def as_nobody(code: str) -> list[Finding]:
    """What the check finds as a user without rights."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    script = (f"import json, os, sys; sys.path[:] = {sys.path!r}\nfrom pathlib import Path\n"
              "from edge.cameras import RecordingSettings, ServiceSettings\n"
              "from edge.doctor.disks import check_root\nfrom edge.doctor.rights import check_rights\n"
              f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
              f"print(json.dumps([(f.level, f.text, f.remedy) for f in {code}]))")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return [Finding(*values) for values in json.loads(done.stdout)]


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user can look into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_root_of_somebody_else(reachable: Path) -> None:
    (finding,) = [found for found in as_nobody(f"check_root(Path({str(reachable)!r}), [RecordingSettings()], {SMALL})")
                  if found.level == "error"]  # fmt: skip
    assert "cannot be written" in finding.text
    assert "ReadWritePaths" in finding.remedy
    (reachable / "closed").mkdir(mode=0o700)
    inside = reachable / "closed" / "root"
    (finding,) = as_nobody(f"check_root(Path({str(inside)!r}), [RecordingSettings()], {SMALL})")
    assert "Permission denied" in finding.text


def test_devices_that_refuse(reachable: Path) -> None:
    (reachable / "dri").mkdir()
    for name, mode in (("video0", 0o666), ("video1", 0o600), ("dri/renderD128", 0o660), ("nvmap", 0o660)):
        (reachable / name).touch()
        (reachable / name).chmod(mode)
    refused = [found.text for found in as_nobody(f"check_rights(ServiceSettings(()), Path({str(reachable)!r}))")
               if "no access" in found.text]  # fmt: skip
    assert len(refused) == 1                                # all of one group
    assert all(name in refused[0] for name in ("video1", "renderD128", "nvmap"))
    assert "video0" not in refused[0]
    assert "1 camera and GPU devices" in check_rights(NOTHING, reachable)[0].text or os.geteuid() == 0


def test_video_devices(tmp_path: Path) -> None:
    assert isinstance(probe(tmp_path / "video0"), FileNotFoundError)
    (tmp_path / "video0").symlink_to("/dev/null")
    assert probe(tmp_path / "video0") is None
    camera = CameraSettings("usb", V4l2Source(tmp_path / "video0"))
    (finding,) = check_local_cameras(ServiceSettings((camera,)), tmp_path)
    assert (finding.level, "gives no pictures" in finding.text) == ("error", True)
    camera = CameraSettings("usb", V4l2Source(tmp_path / "by-id"))
    (finding,) = check_local_cameras(ServiceSettings((camera,)), tmp_path)
    assert "is not there" in finding.text


def test_argus_and_files(tmp_path: Path) -> None:
    address, file = tmp_path / "argus", tmp_path / "clip.mp4"
    settings = ServiceSettings((CameraSettings("csi", CsiSource(0)), CameraSettings("file", FileSource(file))))
    assert [finding.level for finding in check_local_cameras(settings, tmp_path, address)] == ["error", "error"]
    file.touch()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(address))
        server.listen()
        assert [finding.text for finding in check_local_cameras(settings, tmp_path, address)] == ["csi: Argus answers"]
    (finding,) = check_local_cameras(settings, tmp_path, address)
    assert "nvargus-daemon" in finding.remedy               # the socket of a daemon that has died


def test_a_hot_and_throttled_board(tmp_path: Path) -> None:
    files = {"sys/class/thermal/thermal_zone0/type": "tj-thermal", "sys/class/thermal/thermal_zone0/temp": "97500",
             "sys/class/hwmon/hwmon0/name": "soctherm_oc", "sys/class/hwmon/hwmon0/oc3_event_cnt": "12",
             "proc/meminfo": "MemAvailable: 500000 kB", "var/lib/nvpmodel/status": "pmode:0002"}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    findings = check_board(NOTHING, (tmp_path / "sys", tmp_path / "proc", tmp_path))
    warnings = " ".join(finding.text for finding in findings if finding.level == "warning")
    assert all(words in warnings for words in ("98 °C", "oc3 12 times", "less than 1 GB"))
    assert "power mode 2" in findings[-1].text
    (quiet,) = check_board(NOTHING, (tmp_path / "none", tmp_path / "none", tmp_path / "none"))
    assert quiet.level == "info"


def test_a_clock_that_was_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_clock(NOTHING)[0].level in ("ok", "warning", "info")
    monkeypatch.setattr("time.time", lambda: 3600.0)
    assert check_clock(NOTHING)[0].level == "error"
