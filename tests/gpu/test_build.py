"""Every prepared graph builds, and its engine agrees with ONNX Runtime on real photos."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from build_engines.tensorrt_builder import BuildRequest, build
from edge.errors import BuildError
from edge.inference.tensorrt import TensorRtRuntime
from tests.gpu.compare import inputs_of, item, onnx_outputs, relative_error
from tests.gpu.conftest import GRAPHS

NAMES = sorted(path.stem for path in GRAPHS.glob("*.onnx") if not path.stem.endswith(".published"))
FLOAT = [name for name in NAMES if not name.endswith(".int8")]
INT8 = [name for name in NAMES if name.endswith(".int8")]
GENERATORS = ("generator",)
FP16_LIMIT = 1e-2
# Both round to the same eight bits but at different moments, and a value at the border of a step goes either way.
INT8_LIMIT = 0.1


def batches(name: str) -> tuple[int, ...]:
    return (1, 4) if name.startswith(GENERATORS) else (1, 8)


@pytest.mark.parametrize("name", FLOAT)
def test_fp16_agrees_with_onnx_runtime(name: str, plan: Callable[..., Path]) -> None:
    runtime = TensorRtRuntime([plan(name, batches(name)).read_bytes()], name)
    inputs = item(inputs_of(name), 0, batches(name)[-1])
    expected = onnx_outputs(GRAPHS / f"{name}.onnx", inputs)
    together = relative_error(runtime.run_network(inputs), expected)
    alone = relative_error(runtime.run_network(item(inputs, 0)), item(expected, 0))
    runtime.close()
    print(f"{name}: batch {batches(name)[-1]} {together:.1e}, batch 1 {alone:.1e}")
    assert max(together, alone) < FP16_LIMIT


@pytest.mark.parametrize("name", INT8)
def test_int8_agrees_with_onnx_runtime(name: str, plan: Callable[..., Path]) -> None:
    runtime = TensorRtRuntime([plan(name, batches(name), int8=True).read_bytes()], name)
    inputs = item(inputs_of(name), 0, batches(name)[-1])
    error = relative_error(runtime.run_network(inputs), onnx_outputs(GRAPHS / f"{name}.onnx", inputs))
    quantised = [layer for layer in runtime.layers() if "Int8" in str(layer.get("Outputs")) + str(layer.get("Inputs"))]
    runtime.close()
    print(f"{name}: {error:.1e}, {len(quantised)} layers in INT8")
    assert quantised
    assert error < INT8_LIMIT


def test_what_tensorrt_refuses_is_told_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "garbage.onnx").write_bytes(b"garbage")
    with pytest.raises(BuildError, match=r"TensorRT .* cannot read garbage\.onnx \(.+\)"):
        build(BuildRequest(tmp_path / "garbage.onnx", tmp_path / "plan"), lambda message: None)
    assert not (tmp_path / "plan").exists()
