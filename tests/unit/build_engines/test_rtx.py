"""Every graph that the toolkit makes, read and built by NVIDIA's own parser and builder, strongly typed.

TensorRT-RTX does that on a machine without a GPU (the extra ``rtx``, 95 MB). It says that a graph is
legal, not how fast it is or what TensorRT 8.6 makes of it: tests/gpu does.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from build_engines.half import to_half
from build_engines.tensorrt_builder import BuildRequest, build
from tests.harness.networks import NETWORKS, network

TIMEOUT_S = 100.0
# Ampere, as Orin is; Orin's own 8.7 is not among the targets of TensorRT-RTX.
TARGET = "8.6"
# Depthwise and pointwise layers; batch norm in front, Gemm; AdaIN, padding and interpolation.
QUICK = ("yunet_n", "mobileface", "generator")


def check(graph: onnx.ModelProto, folder: Path) -> None:
    pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX is not installed: pip install -e .[rtx]")
    (folder / "graph.onnx").write_bytes(graph.SerializeToString())
    request = BuildRequest(
        folder / "graph.onnx", folder / "plan", batches=(1, 4), library="tensorrt_rtx", target=TARGET, level=0
    )
    assert build(request, lambda message: None, TIMEOUT_S).bytes > 100_000


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NETWORKS])
def test_int8_in_half_builds(name: str, shared_data: Path, tmp_path: Path) -> None:
    check(to_half(network(name, shared_data).quantised("all")), tmp_path)


@pytest.mark.parametrize("name", [n if n == "generator" else pytest.param(n, marks=pytest.mark.slow) for n in NETWORKS])
def test_half_builds(name: str, shared_data: Path, tmp_path: Path) -> None:
    check(to_half(network(name, shared_data).graph), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_float_builds(name: str, shared_data: Path, tmp_path: Path) -> None:
    check(network(name, shared_data).graph, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_some_layers_in_int8_build(name: str, shared_data: Path, tmp_path: Path) -> None:
    check(to_half(network(name, shared_data).quantised("dense")), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_int8_in_float_builds(name: str, shared_data: Path, tmp_path: Path) -> None:
    check(network(name, shared_data).quantised("all"), tmp_path)
