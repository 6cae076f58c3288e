"""Clocks of a GPU while it works, as a Jetson's sysfs and as nvidia-smi tell them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from build_engines.tensorrt_clocks import Clocks, clocks_under_load

NOBODY = ("/nowhere/nvidia-smi",)


def board(root: Path, node: str, hertz: str, memory: str | None = None) -> None:
    folder = root / "sys/class/devfreq" / node
    folder.mkdir(parents=True)
    (folder / "cur_freq").write_text(hertz)
    if memory is not None:
        rate = root / "sys/kernel/debug/bpmp/debug/clk/emc/rate"
        rate.parent.mkdir(parents=True)
        rate.write_text(memory)


@pytest.mark.parametrize("node", ["17000000.gpu", "17000000.ga10b", "gpu-gpc-0"])
def test_of_a_jetson(node: str, tmp_path: Path) -> None:
    board(tmp_path, node, "1300500000\n", "3199000000\n")
    assert clocks_under_load(lambda: None, tmp_path, NOBODY) == Clocks(1300.5, 3199.0)


def test_what_only_root_may_read_is_not_known(tmp_path: Path) -> None:
    board(tmp_path, "17000000.gpu", "1300500000\n")
    assert clocks_under_load(lambda: None, tmp_path, NOBODY) == Clocks(1300.5, None)


def test_the_gpu_works_while_it_is_asked(tmp_path: Path) -> None:
    board(tmp_path, "17000000.gpu", "306000000\n")
    gpu = tmp_path / "sys/class/devfreq/17000000.gpu/cur_freq"
    assert clocks_under_load(lambda: gpu.write_text("1300500000\n"), tmp_path, NOBODY).gpu_mhz == 1300.5


@pytest.mark.parametrize(
    ("said", "expected"),
    [("1980, 3201", Clocks(1980.0, 3201.0)), ("1980, [N/A]", Clocks(1980.0, None)), ("No devices were found", Clocks()),
     ("", Clocks())],
)  # fmt: skip
def test_of_nvidia_smi(said: str, expected: Clocks, tmp_path: Path) -> None:
    assert clocks_under_load(lambda: None, tmp_path, (sys.executable, "-c", f"print({said!r})")) == expected


def test_nobody_tells(tmp_path: Path) -> None:
    board(tmp_path, "a-network-card", "1000\n")
    assert clocks_under_load(lambda: None, tmp_path, NOBODY) == Clocks()
