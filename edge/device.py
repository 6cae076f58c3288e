"""What this machine is: the Jetson module and its JetPack, the GPU, CUDA and TensorRT. Everything is probed."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from edge.nvidia.driver import Gpu, first_gpu
from edge.nvidia.tensorrt_api import installed_version

ORIN, THOR, XAVIER = "nvidia,tegra234", "nvidia,tegra264", "nvidia,tegra194"
# L4T release to JetPack; NVIDIA's release notes. A longer key wins.
JETPACKS = {
    "32": "4", "34": "5.0", "35": "5.1", "36.2": "6.0 (developer preview)", "36.3": "6.0", "36.4": "6.1",
    "36.4.3": "6.2", "36.4.4": "6.2.1", "36.4.7": "6.2.1", "36.5": "6.2.2", "38.2": "7.0", "38.4": "7.1",
    "39.0": "7.2 (early access)", "39.2": "7.2",
}   # fmt: skip


@dataclass(frozen=True, slots=True)
class Device:
    """name: the Jetson module, else the GPU, else the processor. machine: ``x86_64`` or ``aarch64``.

    compute_capability: of the GPU, such as ``8.7``. tensorrt, cuda, jetpack: versions. None: not there.
    unsupported: why TensorRT is not used here although it may be there; empty when nothing is known against it.
    """

    name: str
    machine: str
    compute_capability: str | None
    tensorrt: str | None
    cuda: str | None
    jetpack: str | None
    unsupported: str = ""

    def __str__(self) -> str:
        parts = [self.name]
        parts += [f"{word} {value}" for word, value in (
            ("JetPack", self.jetpack), ("compute capability", self.compute_capability), ("CUDA", self.cuda),
            ("TensorRT", self.tensorrt),
        ) if value]     # fmt: skip
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Jetson:
    """model: for people. soc: the chip, as the device tree names it. l4t: such as ``36.4.3``, None when unknown."""

    model: str
    soc: str
    l4t: str | None

    @property
    def jetpack(self) -> str | None:
        """The JetPack of this L4T; for one that is not listed, its generation."""
        if self.l4t is None:
            return None
        parts = self.l4t.split(".")
        for length in range(len(parts), 0, -1):
            found = JETPACKS.get(".".join(parts[:length]))
            if found:
                return found
        return f"unknown (L4T {self.l4t})"

    @property
    def unsupported(self) -> str:
        """Why this combination is refused; empty when it is not. An unlisted L4T is not: TensorRT itself is probed."""
        major = int(self.l4t.split(".")[0]) if self.l4t else 0
        if 0 < major < 36:
            return (
                f"JetPack {self.jetpack} (L4T {self.l4t}) has Python 3.8 and TensorRT 8.5 or older, which are not "
                "supported; update the module to JetPack 6 or 7.2"
            )
        if major == 38 and self.soc == ORIN:
            return (
                f"JetPack {self.jetpack} (L4T {self.l4t}) is for Jetson Thor only; "
                "install JetPack 6 or 7.2 on Orin modules"
            )
        return ""


def jetson(root: Path = Path("/")) -> Jetson | None:
    """The Jetson module, or None when this is none. root: of the file system that is asked."""
    tree = root / "proc/device-tree"
    compatible = _read(tree / "compatible").split("\0")
    soc = next((name for name in compatible if re.fullmatch(r"nvidia,tegra\d+", name)), None)
    if soc is None:
        return None
    model = _read(tree / "model").strip("\0 \n") or compatible[0]
    release = re.search(r"#\s*R(\d+)\s*\(release\),\s*REVISION:\s*([\d.]+)", _read(root / "etc/nv_tegra_release"))
    return Jetson(model, soc, f"{release[1]}.{release[2]}" if release else None)


def this_device(root: Path = Path("/")) -> Device:
    """Probe this machine. Loads TensorRT when it is there, which takes a moment the first time."""
    gpu, module = first_gpu(), jetson(root)
    found = gpu if isinstance(gpu, Gpu) else None
    return Device(
        name=module.model if module else found.name if found else _processor(root),
        machine=platform.machine(),
        compute_capability=found.compute_capability if found else None,
        tensorrt=installed_version(),
        cuda=found.cuda if found else None,
        jetpack=module.jetpack if module else None,
        unsupported=module.unsupported if module else "",
    )


def _processor(root: Path) -> str:
    name = re.search(r"^model name\s*:\s*(.+)$", _read(root / "proc/cpuinfo"), re.MULTILINE)
    return name[1].strip() if name else f"{platform.machine()} processor"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
