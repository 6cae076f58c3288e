"""What a machine is, from the files that NVIDIA's images have."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from edge.device import Device, Jetson, jetson, this_device

RELEASE = (
    "# R{major} (release), REVISION: {revision}, GCID: 38968081, BOARD: generic, EABI: aarch64, "
    "DATE: Wed Jan  8 01:49:37 UTC 2025\n# KERNEL_VARIANT: oot\nTARGET_USERSPACE_LIB_DIR=nvidia\n"
)
ORIN = b"nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0"
THOR = b"nvidia,p3971-0089+p3834-0008\0nvidia,tegra264\0"


def machine(root: Path, compatible: bytes = ORIN, l4t: str | None = "36.4.3") -> Path:
    """A file system as a Jetson has it."""
    tree = root / "proc/device-tree"
    tree.mkdir(parents=True)
    (tree / "compatible").write_bytes(compatible)
    (tree / "model").write_bytes(b"NVIDIA Jetson AGX Orin Developer Kit\0")
    if l4t is not None:
        major, _, revision = l4t.partition(".")
        (root / "etc").mkdir()
        (root / "etc/nv_tegra_release").write_text(RELEASE.format(major=major, revision=revision))
    return root


@pytest.mark.parametrize(
    ("l4t", "jetpack"),
    [
        ("36.3.0", "6.0"), ("36.4.0", "6.1"), ("36.4.3", "6.2"), ("36.4.4", "6.2.1"), ("36.4.7", "6.2.1"),
        ("36.5.0", "6.2.2"), ("39.2.0", "7.2"), ("36.9.1", "unknown (L4T 36.9.1)"), ("40.1", "unknown (L4T 40.1)"),
    ],
)   # fmt: skip
def test_supported_releases_of_orin(tmp_path: Path, l4t: str, jetpack: str) -> None:
    found = jetson(machine(tmp_path, l4t=l4t))
    assert found == Jetson("NVIDIA Jetson AGX Orin Developer Kit", "nvidia,tegra234", l4t)
    assert found.jetpack == jetpack
    assert found.unsupported == ""      # unknown ones are tried: TensorRT itself has the last word


@pytest.mark.parametrize(
    ("l4t", "compatible", "said"),
    [
        ("35.4.1", ORIN, "JetPack 5.1 (L4T 35.4.1) has Python 3.8"),
        ("32.7.1", ORIN, "JetPack 4 (L4T 32.7.1)"),
        ("38.2.0", ORIN, "JetPack 7.0 (L4T 38.2.0) is for Jetson Thor only; install JetPack 6 or 7.2"),
        ("38.4.0", ORIN, "JetPack 7.1 (L4T 38.4.0) is for Jetson Thor only"),
    ],
)
def test_releases_that_are_refused(tmp_path: Path, l4t: str, compatible: bytes, said: str) -> None:
    found = jetson(machine(tmp_path, compatible, l4t))
    assert found is not None
    assert said in found.unsupported


def test_jetpack_7_0_is_right_for_thor(tmp_path: Path) -> None:
    found = jetson(machine(tmp_path, THOR, "38.2.0"))
    assert found is not None
    assert (found.unsupported, found.jetpack) == ("", "7.0")


def test_a_container_without_the_release_file(tmp_path: Path) -> None:
    found = jetson(machine(tmp_path, l4t=None))
    assert found is not None
    assert (found.l4t, found.jetpack, found.unsupported) == (None, None, "")


def test_what_is_no_jetson(tmp_path: Path) -> None:
    assert jetson(tmp_path) is None
    assert jetson(machine(tmp_path, b"raspberrypi,4-model-b\0brcm,bcm2711\0")) is None


def test_the_device_is_the_jetson_module(tmp_path: Path) -> None:
    device = this_device(machine(tmp_path, l4t="35.4.1"))
    assert device.name == "NVIDIA Jetson AGX Orin Developer Kit"
    assert device.jetpack == "5.1"
    assert "JetPack 5.1" in device.unsupported


def test_this_machine() -> None:
    device = this_device()
    assert device.machine == platform.machine()
    assert device.name
    assert (device.compute_capability is None) == (device.cuda is None)


def test_it_reads_well() -> None:
    device = Device("Orin", "aarch64", "8.7", "8.6.2", "12.2", "6.0")
    assert str(device) == "Orin, JetPack 6.0, compute capability 8.7, CUDA 12.2, TensorRT 8.6.2"
    assert str(Device("Some CPU", "x86_64", None, None, None, None)) == "Some CPU"
