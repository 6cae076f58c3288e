"""The systemd units: accepted without a word, well closed, and of keys that the oldest supported systemd knows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "systemd"
SERVICES = ("edge.service", "edge-build.service")
EXPOSURE_AT_MOST = 3.0
# Not in systemd 249, which JetPack 6 has; the settings that NEWS lists from 250 on and that one might want here.
TOO_NEW = {
    "RestrictFileSystems", "RestrictNetworkInterfaces", "ExtensionDirectories", "LoadCredentialEncrypted",
    "SetCredentialEncrypted", "ImportCredential", "MemoryZSwapMax", "RestartSteps", "RestartMaxDelaySec", "RestartMode",
    "StartupMemoryMax", "DelegateSubgroup", "ExecSearchPath", "OpenFile", "MemoryKSM", "FileDescriptorStorePreserve",
    "ReloadSignal", "PrivatePIDs", "PrivateBPF",
}   # fmt: skip


def settings(path: Path) -> list[tuple[str, str]]:
    """Keys and values in order."""
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith(("#", "[")))
    return [(key, value) for key, _, value in pairs]


@pytest.fixture
def placed(tmp_path: Path) -> Path:
    """The units in a folder, with programs that exist here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (apt-get install systemd)")
    for name in SERVICES:
        text = (UNITS / name).read_text()
        (tmp_path / name).write_text(re.sub(r"/opt/edge/bin/edge-\w+", "/bin/true", text))
    return tmp_path


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("example", [None, *sorted(path.name for path in (UNITS / "examples").glob("*.conf"))])
def test_systemd_has_nothing_to_say(placed: Path, example: str | None) -> None:
    """It exits with 0 on keys that it does not know: what counts is that it is silent."""
    if example is not None:
        (placed / "edge.service.d").mkdir()
        shutil.copy(UNITS / "examples" / example, placed / "edge.service.d" / example)
    done = analyze("verify", *(str(placed / name) for name in SERVICES))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_would_have_something_to_say(placed: Path) -> None:
    with (placed / "edge.service").open("a") as unit:
        unit.write("[Service]\nProtectEverything=yes\n")
    assert "ProtectEverything" in analyze("verify", str(placed / "edge.service")).stderr


@pytest.mark.parametrize("name", SERVICES)
def test_the_sandbox_is_closed_well_enough(placed: Path, name: str) -> None:
    command = ("security", "--offline=true", f"--threshold={round(EXPOSURE_AT_MOST * 10)}", str(placed / name))
    done = analyze(*command)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) <= EXPOSURE_AT_MOST
    assert done.returncode == 0


@pytest.mark.parametrize("path", [*(UNITS / name for name in SERVICES), *sorted((UNITS / "examples").glob("*.conf"))],
                         ids=lambda path: path.name)  # fmt: skip
def test_keys_are_those_of_systemd_249(path: Path) -> None:
    assert {key for key, _ in settings(path)} & TOO_NEW == set()
    assert "notify-reload" not in path.read_text()                       # since 253


def test_what_breaks_cameras_and_gpu_is_left_out() -> None:
    for name in SERVICES:
        values = dict(settings(UNITS / name))
        assert {"PrivateDevices", "ProtectClock", "ProcSubset", "MemoryDenyWriteExecute"} & set(values) == set()


def test_the_daemon_is_watched_and_comes_back_but_not_on_a_wrong_configuration() -> None:
    values = dict(settings(UNITS / "edge.service"))
    expected = {
        "Type": "notify", "NotifyAccess": "main", "WatchdogSec": "60", "KillMode": "mixed", "TimeoutStopSec": "30",
        "Restart": "always", "RestartPreventExitStatus": "78", "StartLimitIntervalSec": "0", "LimitCORE": "0",
        "User": "edge", "OOMPolicy": "continue",
    }   # fmt: skip
    assert {key: values.get(key) for key in expected} == expected


def test_a_build_that_fails_neither_stops_the_daemon_nor_holds_up_its_restarts() -> None:
    daemon, build = (dict(settings(UNITS / name)) for name in SERVICES)
    assert "edge-build.service" in daemon["Wants"].split()
    assert "edge-build.service" in daemon["After"].split()
    assert "Requires" not in daemon
    assert build["ExecStart"].startswith("-")
    assert build["RemainAfterExit"] == "yes"
    assert "timeout 2h" in build["ExecStart"]


def test_both_services_see_the_same_files_as_the_same_user() -> None:
    """What one builds the other must find."""
    daemon, build = (settings(UNITS / name) for name in SERVICES)
    for key in ("User", "Group", "SupplementaryGroups", "StateDirectory", "Environment"):
        assert [value for name, value in daemon if name == key] == [value for name, value in build if name == key]
    assert set(dict(daemon)["CacheDirectory"].split()) <= set(dict(build)["CacheDirectory"].split())


def test_the_daemon_cannot_replace_its_engines() -> None:
    assert "-/var/lib/edge/engines" in dict(settings(UNITS / "edge.service"))["ReadOnlyPaths"].split()


def test_users_and_directories_are_made_as_the_units_need_them(tmp_path: Path) -> None:
    if shutil.which("systemd-sysusers") is None or shutil.which("systemd-tmpfiles") is None:
        pytest.skip("systemd-sysusers is not installed (apt-get install systemd)")
    (tmp_path / "etc").mkdir()
    for program, name in (("systemd-sysusers", "edge.sysusers"), ("systemd-tmpfiles", "edge.tmpfiles")):
        extra = ["--create"] if program == "systemd-tmpfiles" else []
        command = [program, f"--root={tmp_path}", *extra, str(UNITS / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr
    groups = {line.split(":")[0] for line in (tmp_path / "etc" / "group").read_text().splitlines()}
    assert {"edge", *dict(settings(UNITS / "edge.service"))["SupplementaryGroups"].split()} <= groups
    assert (tmp_path / "etc" / "edge" / "credentials").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "var" / "lib" / "edge" / "recordings").stat().st_mode & 0o777 == 0o750
