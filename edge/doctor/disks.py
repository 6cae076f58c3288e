"""The disks that recordings go to: kind, space, and speed with every write synced."""

from __future__ import annotations

import os
import re
import stat
import tempfile
import time
from pathlib import Path

from edge.cameras import RecordingSettings, ServiceSettings
from edge.doctor.finding import Finding

TRIAL_BYTES = 64 << 20
_BLOCK_BYTES = 4 << 20
# What a camera of 1080p writes at most, by a wide margin: 16 Mbit/s.
_CAMERA_BYTES_PER_S = 2e6
WEAK = {
    "vfat": "has no journal, and no files above 4 GB",
    "exfat": "has no journal: a power cut may damage it",
    "fuseblk": "is slow, and a power cut may damage it",
    "tmpfs": "is memory: recordings are gone after a restart",
    "ramfs": "is memory: recordings are gone after a restart",
    "nfs": "stops with the network",
    "nfs4": "stops with the network",
    "cifs": "stops with the network",
    "overlay": "may be gone with its container",
}


def check_disks(settings: ServiceSettings) -> list[Finding]:
    """Each recordings root once."""
    roots: dict[Path, list[RecordingSettings]] = {}
    for recording in [camera.recording for camera in settings.cameras] or [RecordingSettings()]:
        roots.setdefault(recording.directory, []).append(recording)
    return [finding for root, users in roots.items() for finding in check_root(root, users)]


def check_root(root: Path, users: list[RecordingSettings], trial_bytes: int = TRIAL_BYTES) -> list[Finding]:
    """users: settings of the cameras that record there."""
    try:
        if not stat.S_ISDIR(root.stat().st_mode):
            return [Finding("error", f"{root} is not a directory", "name another one")]
    except FileNotFoundError:
        return [Finding("error", f"{root} is not there", "mount its disk; or as root: systemd-tmpfiles --create")]
    except OSError as error:
        return [Finding("error", f"{root}: {error.strerror}", "check the disk, and rights of the directories above")]
    findings = []
    kind, options = _mounted(root)
    if kind in WEAK:
        findings.append(Finding("warning", f"{root}: {kind} {WEAK[kind]}", "use ext4 or xfs on a disk of its own"))
    if "ro" in options:
        return [
            *findings,
            Finding(
                "error",
                f"{root}: is mounted read-only",
                "journalctl -k says why; check the disk, then mount -o remount,rw",
            ),
        ]
    facts = os.statvfs(root)
    free, floor = facts.f_bavail * facts.f_frsize, max(each.retention.min_free_bytes for each in users)
    if free - trial_bytes < floor:
        return [
            *findings,
            Finding(
                "error",
                f"{root}: {free / 1e9:.1f} GB free, and recording pauses under {floor / 1e9:.1f} GB",
                "free some space, or set a smaller disk floor",
            ),
        ]
    if facts.f_files and facts.f_favail < 10_000:
        findings.append(Finding("warning", f"{root}: {facts.f_favail} files can still be made", "delete some"))
    try:
        speed = _speed(root, trial_bytes)
    except OSError as error:
        remedy = "chown it to the service's user, or name it in ReadWritePaths= (share/edge/systemd/recordings.conf)"
        return [*findings, Finding("error", f"{root}: cannot be written ({error.strerror})", remedy)]
    needed = _CAMERA_BYTES_PER_S * len(users)
    text = f"{root}: {kind or 'unknown file system'}, {free / 1e9:.0f} GB free, writes {speed / 1e6:.0f} MB/s"
    if speed < needed:
        findings.append(
            Finding("warning", text, f"{len(users)} cameras may need {needed / 1e6:.0f} MB/s: another disk")
        )
    else:
        findings.append(Finding("ok", text))
    return findings


def _speed(root: Path, size_bytes: int) -> float:
    """Bytes per second, synced. The file has no name, so that it cannot stay behind. Raises OSError."""
    block = os.urandom(_BLOCK_BYTES)
    with tempfile.TemporaryFile(dir=root, buffering=0) as file:
        started_s = time.monotonic()
        for _ in range(size_bytes // _BLOCK_BYTES):
            file.write(block)
            os.fdatasync(file.fileno())
        return size_bytes / max(time.monotonic() - started_s, 1e-6)


def _mounted(path: Path, table: Path = Path("/proc/self/mountinfo")) -> tuple[str, set[str]]:
    """File system type, and mount options of both mount and file system; the deepest mount point that holds `path`."""
    best: tuple[int, str, set[str]] = (-1, "", set())
    resolved = path.resolve()
    for line in table.read_text(errors="replace").splitlines():
        fields, _, rest = line.partition(" - ")
        point = Path(re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), fields.split()[4]))
        if resolved.is_relative_to(point) and len(point.parts) >= best[0]:
            kind, _, super_options = rest.split(" ", 2)
            best = (len(point.parts), kind, {*fields.split()[5].split(","), *super_options.split(",")})
    return best[1], best[2]
