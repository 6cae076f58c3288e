"""edge-doctor as a command: exit codes, JSON, the sandbox's properties."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from edge.cameras import CameraSettings, RtspSource, SecretRef, ServiceSettings
from edge.doctor.checks import CHECKS
from edge.doctor.credentials import check_credentials
from edge.doctor.inference import check_models
from edge.doctor.isolated import run
from edge.doctor.sandbox import command, sandbox
from edge.doctor.software import PACKAGES
from edge.errors import UnavailableError

ROOT = Path(__file__).parents[3]


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edge.cli.doctor", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=100, check=False)  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "edge.yaml"
    path.write_text("cameras:\n  door:\n    source: {rtsp: 'rtsp://192.0.2.1/x'}\n")
    return path


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_check_comes_to_an_end_on_this_machine(check: object) -> None:
    findings = run(check, ServiceSettings(()))              # type: ignore[arg-type]
    assert findings
    assert [found.text for found in findings if "could not be checked" in found.text or "ended by" in found.text] == []
    assert [found.text for found in findings if found.level in ("warning", "error") and not found.remedy] == []


def test_all_packages_that_the_project_needs_are_imported() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    needed = {re.split(r"[<>=~;\[ ]", line)[0] for line in config["options"]["install_requires"].split("\n") if line}
    assert set(PACKAGES.values()) == needed


def test_exit_codes_and_json(tmp_path: Path) -> None:
    done = doctor("--only", "python", "--json")
    assert done.returncode == 0, done.stderr
    assert [(found["check"], found["level"]) for found in json.loads(done.stdout)][-1] == ("python", "ok")
    done = doctor("--only", "python", "--config", str(tmp_path / "missing.yaml"))
    assert done.returncode == 78
    assert "error   configuration" in done.stdout
    assert "ok      python" in done.stdout                  # the machine is checked all the same
    assert doctor("--only", "nonsense").returncode == 64


def test_every_fault_of_a_configuration_is_named(tmp_path: Path) -> None:
    path = tmp_path / "edge.yaml"
    path.write_text("camera: {}\ncameras: 3\n")
    done = doctor("--only", "python", "--config", str(path))
    assert done.returncode == 78
    assert done.stdout.count("error   configuration") == 2, done.stdout


def test_the_sandbox_is_that_of_the_service() -> None:
    unit = (ROOT / "systemd" / "edge.service").read_text()
    drop_in = "# /etc/systemd/system/edge.service.d/csi.conf\n[Unit]\nWants=a\n[Service]\nPrivateTmp=no\nExecStart=\n"
    settings = sandbox(unit + drop_in)
    assert {"User=edge", "ProtectSystem=strict", "SystemCallFilter=@system-service", "UMask=0027"} <= set(settings)
    assert settings.index("PrivateTmp=yes") < settings.index("PrivateTmp=no")       # the last word counts
    names = {setting.split("=")[0] for setting in settings}
    assert names & {"ExecStart", "Type", "RuntimeDirectory", "WatchdogSec", "Restart", "KillMode", "Wants"} == set()
    assert sandbox("[Service]\nReadWritePaths=/a \\\n  /b\n") == ["ReadWritePaths=/a    /b"]


def test_the_command_that_enters_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a systemctl that shows the unit of this checkout: systemd itself does not run here."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name, script in (("systemctl", f"cat {ROOT}/systemd/edge.service"), ("systemd-run", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    words = command("edge.service", ["edge-doctor", "--cameras"], booted=tmp_path)
    assert words[0] == "systemd-run"
    assert {"--wait", "--pipe", "--property=User=edge", "--property=ProtectSystem=strict"} <= set(words)
    assert words[words.index("--"):] == ["--", "edge-doctor", "--cameras"]
    (tmp_path / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(UnavailableError, match="has no unit"):
        command("edge.service", ["edge-doctor"], booted=tmp_path)


def test_without_systemd_it_says_so() -> None:
    if Path("/run/systemd/system").is_dir():
        pytest.skip("systemd runs this machine")
    done = doctor("--as-service")
    assert done.returncode == 69
    assert "systemd does not run this machine" in done.stderr
    assert done.stdout == ""


def test_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    source = RtspSource("rtsp://x/", SecretRef("environment", "EDGE_TEST_USER"), SecretRef("credential", "door"))
    settings = ServiceSettings((CameraSettings("door", source),))
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    assert [found.level for found in check_credentials(settings)] == ["error", "warning"]
    monkeypatch.setenv("EDGE_TEST_USER", "viewer")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    missing = check_credentials(settings)[1]
    assert (missing.level, "LoadCredential=door:" in missing.remedy) == ("error", True)
    (tmp_path / "door").write_text(password)
    (tmp_path / "door").chmod(0o600)
    found = check_credentials(settings)
    assert [each.level for each in found] == ["ok", "ok"]
    assert password not in str(found)


def test_a_model_that_is_not_here(tmp_path: Path) -> None:
    (finding,) = check_models(ServiceSettings((), models_dir=tmp_path))
    assert (finding.level, finding.remedy) == ("error", "as root: edge-models fetch")
