"""Builds with NVIDIA's own parser and builder (TensorRT-RTX needs no GPU for that), and what happens when one dies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from build_engines.tensorrt_builder import (
    BuildRequest,
    Retrying,
    Said,
    Step,
    available_memory_bytes,
    build,
    default_workspace_bytes,
    ladder,
)
from edge.errors import BuildError, UnavailableError

MIB = 1 << 20
Message = Step | Said | Retrying


def small_graph(height: int | str = 32, batch: int | str = "batch") -> bytes:
    """uint8 pictures, a convolution, a map."""
    weights = np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["picture"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["float"], ["planar"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["planar", "weights"], ["map"], pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("picture", TensorProto.UINT8, [batch, height, 64, 3])],
        [helper.make_tensor_value_info("map", TensorProto.FLOAT, [batch, 8, height, 64])],
        [numpy_helper.from_array(weights, "weights")],
    )   # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


@pytest.fixture
def request_(tmp_path: Path) -> BuildRequest:
    pytest.importorskip("tensorrt_rtx")
    (tmp_path / "small.onnx").write_bytes(small_graph())
    return BuildRequest(
        tmp_path / "small.onnx", tmp_path / "plans" / "small.plan", batches=(1, 8), library="tensorrt_rtx", target="8.6"
    )


def test_a_build(request_: BuildRequest) -> None:
    told: list[Message] = []
    built = build(request_, told.append)
    assert built.bytes == request_.plan.stat().st_size > 1000
    assert built.request == request_
    assert built.seconds > 0
    assert "Memory" in built.log_tail
    assert any(isinstance(message, Step) for message in told)
    assert not any(isinstance(message, Retrying) for message in told)


def test_a_fixed_batch_needs_no_profile(request_: BuildRequest) -> None:
    request_.graph.write_bytes(small_graph(batch=2))
    assert build(request_, lambda message: None).bytes > 1000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"garbage", "cannot read small.onnx (node -1: "),
        (small_graph(height="height"), "the input picture (-1, -1, 64, 3) has more than its batch free"),
    ],
    ids=["garbage", "free height"],
)
def test_what_cannot_be_read(request_: BuildRequest, content: bytes, said: str) -> None:
    request_.graph.write_bytes(content)
    told: list[Message] = []
    with pytest.raises(BuildError) as caught:
        build(request_, told.append)
    assert said in caught.value.message
    assert not request_.plan.exists()
    assert not any(isinstance(message, Retrying) for message in told)      # more memory would not help


def test_too_little_workspace(request_: BuildRequest) -> None:
    with pytest.raises(BuildError, match=r"TensorRT-RTX .* cannot build small\.onnx .*workspace") as caught:
        build(replace(request_, workspace_bytes=MIB), lambda message: None)
    assert caught.value.remedy == "give a larger --workspace"


def test_where_there_is_no_tensorrt(request_: BuildRequest) -> None:
    with pytest.raises(UnavailableError, match="apt install python3-libnvinfer"):
        build(replace(request_, library="tensorrt_nowhere"), lambda message: None)


# What follows needs a library that dies when told.


@pytest.fixture
def dying(tmp_path: Path) -> BuildRequest:
    (tmp_path / "net.onnx").write_bytes(b"")
    return BuildRequest(
        tmp_path / "net.onnx", tmp_path / "net.plan", workspace_bytes=4096 * MIB, library="tests.harness.dying_tensorrt"
    )


@pytest.mark.parametrize(
    ("ends", "plan", "why"),
    [
        ("2000:SIGKILL,0:ok", "1024 MiB, level 3", "was killed (SIGKILL), most likely because memory ran out"),
        ("2000:SIGSEGV,0:ok", "1024 MiB, level 3", "crashed (SIGSEGV)"),
        ("2000:memory,0:ok", "1024 MiB, level 3", "OutOfMemory"),
        ("2000:hang,0:ok", "1024 MiB, level 3", "was stopped after 1.5 s"),
        ("1000:SIGABRT,0:ok", "256 MiB, level 1", "crashed (SIGABRT)"),
    ],
)
def test_a_build_that_dies_is_tried_with_less(
    dying: BuildRequest, monkeypatch: pytest.MonkeyPatch, ends: str, plan: str, why: str
) -> None:
    monkeypatch.setenv("DYING_TENSORRT", ends)
    told: list[Message] = []
    built = build(dying, told.append, timeout_s=1.5)
    assert dying.plan.read_text() == plan
    retries = [message for message in told if isinstance(message, Retrying)]
    assert why in retries[0].why
    assert "(workspace 4096 MiB, level 3)" in retries[0].why
    assert (built.request.workspace_bytes, built.request.level) == (retries[-1].workspace_bytes, retries[-1].level)


def test_one_that_always_dies(dying: BuildRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYING_TENSORRT", "0:SIGKILL")
    with pytest.raises(BuildError) as caught:
        build(dying, lambda message: None)
    text = str(caught.value)
    assert "the build of net.onnx failed 4 times" in text
    for limits in ("4096 MiB, level 3", "1024 MiB, level 3", "1024 MiB, level 2", "256 MiB, level 1"):
        assert f"(workspace {limits}) was killed (SIGKILL)" in text
    assert "MiB were free at its start; TensorRT's last errors: about to fail" in text
    assert "smaller --workspace" in text
    assert caught.value.exit_code == 1
    assert not dying.plan.exists()


def test_what_less_memory_does_not_cure_is_final(dying: BuildRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYING_TENSORRT", "0:refused")
    told: list[Message] = []
    with pytest.raises(BuildError, match="chooseHigherPrecision"):
        build(dying, told.append)
    assert not any(isinstance(message, Retrying) for message in told)


def test_the_ladder_never_asks_for_more(dying: BuildRequest) -> None:
    steps = [(step.workspace_bytes // MIB, step.level) for step in ladder(dying)]
    assert steps == [(4096, 3), (1024, 3), (1024, 2), (256, 1)]
    small = [(step.workspace_bytes // MIB, step.level) for step in ladder(replace(dying, workspace_bytes=MIB, level=0))]
    assert small == [(1, 0)]


def test_the_default_workspace_leaves_memory_for_others() -> None:
    assert 64 * MIB <= default_workspace_bytes() <= min(4096 * MIB, max(64 * MIB, available_memory_bytes() // 2))
