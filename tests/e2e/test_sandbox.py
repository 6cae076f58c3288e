"""What the service's sandbox takes away is not needed: system calls, and places to write.

Without systemd as the first process the sandbox itself cannot be entered; these tests set up its parts one by one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "systemd" / "edge.service"
PROGRAMS = Path(sys.executable).parent
CALL = re.compile(r"^\d+\s+(?:<\.\.\. )?(\w+)(?:\(| resumed)", re.MULTILINE)
# edge-doctor asks for the clock's state, and takes a refusal for an answer.
MAY_BE_REFUSED = {"adjtimex", "clock_adjtime"}
NOBODY = 65534
# --foreground: else it sends SIGTERM to the program and once more to its group, and the second one means haste.
LIMITED = ("timeout", "--foreground", "--preserve-status")

CONFIGURATION = """
service: {{runtime_dir: {folder}/run, metrics_port: null}}
defaults:
  recording: {{directory: {folder}/recordings, segment: 3s}}
  retention: {{disk_floor: 100M}}
  detect: {{model: {folder}/models/model.onnx}}
cameras:
  door:
    source: {{file: {{path: {folder}/clip.mp4}}}}
"""

pytestmark = pytest.mark.timeout(180)


def setting(key: str) -> list[str]:
    """All words of a setting of the unit."""
    lines = UNIT.read_text().splitlines()
    return [word for line in lines if line.startswith(f"{key}=") for word in line.partition("=")[2].split()]


def permitted(name: str) -> set[str]:
    """System calls of a group of systemd."""
    done = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True)
    words = [line.strip() for line in done.stdout.splitlines()[1:] if line.strip() and "#" not in line]
    return set().union(*(permitted(word) if word.startswith("@") else {word} for word in words))


@pytest.fixture
def trial(sample: Path, default_model: Path) -> Iterator[Path]:
    """A configuration with one camera, and all that it names in one folder that every user can look into."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for each in ("recordings", "run", "models"):
            (folder / each).mkdir()
        shutil.copy(sample, folder / "clip.mp4")
        shutil.copy(default_model, folder / "models" / "model.onnx")
        (folder / "edge.yaml").write_text(CONFIGURATION.format(folder=folder))
        yield folder / "edge.yaml"


@pytest.mark.slow
@pytest.mark.parametrize("program", ["edge-doctor", "edge-daemon"])
def test_no_system_call_is_made_that_the_sandbox_refuses(program: str, trial: Path, tmp_path: Path) -> None:
    if shutil.which("strace") is None or shutil.which("systemd-analyze") is None:
        pytest.skip("strace or systemd-analyze is not installed")
    log = tmp_path / "calls"
    limited = [*LIMITED, "25"] if program == "edge-daemon" else []
    command = ["strace", "-f", "-qq", "-o", str(log), *limited, str(PROGRAMS / program), "--config", str(trial)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    used = set(CALL.findall(log.read_text(errors="replace")))
    assert len(used) > 40
    (group,) = setting("SystemCallFilter")
    assert used - permitted(group) - MAY_BE_REFUSED == set()
    families = set(re.findall(r"\bsocket\((AF_\w+)", log.read_text(errors="replace")))
    assert families <= set(setting("RestrictAddressFamilies"))


CLOSED = r"""
set -e
mount --make-rprivate /
for place in $WRITABLE; do mount --bind "$place" "$place"; done
for point in $(awk '{print $2}' /proc/self/mounts | sort -u); do
    case $point in /dev* | /proc* | /sys*) continue ;; esac
    keep=
    for place in $WRITABLE; do [ "$point" = "$place" ] && keep=yes; done
    [ -n "$keep" ] || mount -o remount,bind,ro "$point" 2>/dev/null || true
done
cd /
exec setpriv --reuid $SERVICE_USER --regid $SERVICE_USER --clear-groups --no-new-privs --bounding-set=-all \
    --inh-caps=-all "$@"
"""


def in_closed_machine(trial: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run as a user without rights, with nothing to write to but what the unit grants."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("only root can set this up, with unshare and setpriv")
    folder = trial.parent
    writable = [folder / name for name in ("recordings", "run", "graphs", "gstreamer")]
    for place in writable:
        place.mkdir(exist_ok=True)
        os.chown(place, NOBODY, NOBODY)
    # XDG_CACHE_HOME/edge/graphs is one of the few places that can be written
    (folder / "cache").mkdir()
    (folder / "cache" / "edge").symlink_to(folder)
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "XDG_CACHE_HOME": str(folder / "cache"),
                   "GST_REGISTRY": str(folder / "gstreamer" / "registry.bin"), "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONPATH": str(ROOT), "WRITABLE": " ".join(map(str, writable)),
                   "SERVICE_USER": str(NOBODY)}  # fmt: skip
    closed = ["unshare", "--mount", "sh", "-c", CLOSED, "sh", *command]
    done = subprocess.run(closed, env=environment, capture_output=True, text=True, timeout=120, check=False)
    if "unshare" in done.stderr and "Operation not permitted" in done.stderr:
        pytest.skip("namespaces are not permitted here")
    return done


def test_the_closed_machine_is_closed(trial: Path) -> None:
    folder = trial.parent
    script = f"touch {folder}/recordings/a && ! touch {folder}/b && ! touch /tmp/c && ! touch /var/d && id -u"
    done = in_closed_machine(trial, "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(NOBODY)


def test_the_doctor_finds_nothing_wrong_in_there(trial: Path) -> None:
    checks = [word for name in ("gstreamer", "encoders", "decoders", "detector", "disks") for word in ("--only", name)]
    done = in_closed_machine(trial, str(PROGRAMS / "edge-doctor"), "--config", str(trial), *checks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (trial.parent / "gstreamer" / "registry.bin").is_file()
    assert list((trial.parent / "graphs").glob("*.onnx"))


def test_the_daemon_records_in_there(trial: Path) -> None:
    command = (*LIMITED, "8", str(PROGRAMS / "edge-daemon"), "--config", str(trial))
    done = in_closed_machine(trial, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((trial.parent / "recordings").glob("door/*/*.mp4"))
    assert not list((trial.parent / "recordings").glob("door/*/*.part"))
