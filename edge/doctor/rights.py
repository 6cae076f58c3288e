"""Groups and device nodes: what this user may open."""

from __future__ import annotations

import grp
import os
from pathlib import Path

from edge.cameras import ServiceSettings
from edge.doctor.finding import Finding

# CUDA and codecs of Jetson (snapd's nvidia-tegra-drivers-support lists them), discrete GPUs, cameras.
NODES = (
    "video[0-9]*",
    "media[0-9]*",
    "dri/renderD*",
    "nvmap",
    "nvgpu/*/*",
    "nvhost-*",
    "host1x-fence",
    "v4l2-nvdec",
    "v4l2-nvenc",
    "nvidia[0-9]*",
    "nvidiactl",
    "nvidia-uvm",
)
GROUPS = ("video", "render")


def check_rights(settings: ServiceSettings, devices: Path = Path("/dev")) -> list[Finding]:
    """Device nodes that are there and refuse us, by the group that would help."""
    refused: dict[str, list[str]] = {}
    allowed = 0
    for node in sorted(path for pattern in NODES for path in devices.glob(pattern) if not path.is_dir()):
        if os.access(node, os.R_OK | os.W_OK):
            allowed += 1
        else:
            refused.setdefault(_group(node), []).append(str(node))
    findings = [Finding("ok", f"{allowed} camera and GPU devices can be used; member of {', '.join(_own_groups())}")]
    for group, nodes in refused.items():
        remedy = (
            f"usermod -a -G {group} USER; for the service: SupplementaryGroups= in systemctl edit edge"
            if group in GROUPS
            else "look at udev's rules for them, and at DeviceAllow= in systemctl cat edge"
        )
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        findings.append(Finding("warning", f"no access to {', '.join(nodes[:3])}{more} (group {group})", remedy))
    missing = [name for name in GROUPS if not _exists(name)]
    if missing:
        findings.append(
            Finding(
                "warning",
                f"there is no group {' nor '.join(missing)}, so the service does not start",
                "systemd-sysusers",
            )
        )
    return findings


def _own_groups() -> list[str]:
    names = []
    for number in sorted({os.getegid(), *os.getgroups()}):
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            names.append(str(number))
    return names


def _group(node: Path) -> str:
    try:
        return node.group()
    except (OSError, KeyError):
        return "unknown"


def _exists(group: str) -> bool:
    try:
        grp.getgrnam(group)
    except KeyError:
        return False
    return True
