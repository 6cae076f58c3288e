"""Collecting: every tensor, whatever the pieces, one input at a time."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from calibration.collect import collect
from calibration.histogram import Histogram
from calibration.observers import TensorHistograms
from calibration.segments import cut, in_order
from edge.errors import UnavailableError
from edge.inference.onnx_runtime import load_onnxruntime
from edge.inference.prepare import build_graph
from edge.models.description import description
from tests.unit.models.published import model_file

Array = npt.NDArray[Any]
ROOT = Path(__file__).parents[3]
EXACT = {"max_counted": 1 << 40}


def branched() -> onnx.ModelProto:
    """uint8 (1, H, W, 3) in; a residual block, a side output and a part that nobody asks about."""
    random = np.random.default_rng(0)
    weights = {
        "w1": random.normal(size=(8, 3, 3, 3)), "w2": random.normal(size=(8, 8, 3, 3)),
        "w3": random.normal(size=(4, 8, 1, 1)), "w4": random.normal(size=(2, 4, 1, 1)),
    }   # fmt: skip
    nodes = [
        helper.make_node("Transpose", ["picture"], ["planar"], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", ["planar"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Conv", ["float", "w1"], ["c1"], pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4, strides=[1, 1]),
        helper.make_node("Add", ["c2", "r1"], ["sum"]),
        helper.make_node("Conv", ["sum", "w3"], ["side"]),
        helper.make_node("Conv", ["side", "w4"], ["end"]),
        helper.make_node("Shape", ["r1"], ["shape"]),
    ]
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    picture = helper.make_tensor_value_info("picture", TensorProto.UINT8, [1, None, None, 3])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4) for name in ("side", "end")]
    graph = helper.make_graph(nodes, "g", [picture], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def two_inputs() -> onnx.ModelProto:
    """Floats in, as an embedding or a generator has it: a (1, 4) and b (1, 3)."""
    weights = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "w")
    nodes = [helper.make_node("Gemm", ["a", "w"], ["ab"]), helper.make_node("Div", ["ab", "b"], ["y"])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, n]) for name, n in (("a", 4), ("b", 3))]
    output = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])]
    graph = helper.make_graph(nodes, "g", inputs, output, [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def pictures(*sizes: tuple[int, int]) -> list[Array]:
    random = np.random.default_rng(1)
    return [random.integers(0, 256, (1, height, width, 3), np.uint8) for height, width in sizes]


def at_once(model: onnx.ModelProto, inputs: list[Array], names: list[str]) -> dict[str, Histogram]:
    """What collecting has to give: all tensors of one ordinary run, counted."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    del exposed.graph.output[:]
    exposed.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    session = load_onnxruntime().InferenceSession(exposed.SerializeToString(), providers=["CPUExecutionProvider"])
    histograms = {name: Histogram() for name in names}
    for given in inputs:
        for name, values in zip(names, session.run(names, {"picture": given}), strict=True):
            histograms[name].add(values)
    return histograms


def same(found: TensorHistograms, expected: dict[str, Histogram]) -> None:
    assert list(found.tensors) == list(expected)
    for name, histogram in expected.items():
        each = found.tensors[name]
        assert (each.values, each.exponent) == (histogram.values, histogram.exponent)
        assert each.magnitude == pytest.approx(histogram.magnitude, rel=1e-5)
        # Pieces fuse other nodes, so that sums differ in their last bits, and a few values change their bin.
        assert np.abs(each.counts - histogram.counts).sum() <= 2 + 0.01 * histogram.values


NAMES = ["side", "float", "r1", "sum", "c2"]       # in no particular order


@pytest.mark.parametrize("max_tensor_bytes", [1, 30_000, 1 << 30], ids=["one each", "some", "all"])
def test_pieces_give_what_one_run_gives(max_tensor_bytes: int) -> None:
    inputs = pictures((32, 48), (16, 16), (64, 32), (40, 40))
    found = collect(branched(), inputs, NAMES, max_tensor_bytes=max_tensor_bytes, **EXACT)
    assert found.inputs == 4
    same(found, at_once(branched(), inputs, NAMES))


@pytest.mark.parametrize("name", ["yunet_n", "centerface"])
@pytest.mark.parametrize("max_tensor_bytes", [1 << 20, 1 << 30])
def test_a_real_network(shared_data: Path, name: str, max_tensor_bytes: int) -> None:
    model = onnx.load_from_string(build_graph(model_file(shared_data, name).read_bytes(), description(name)))
    names = list(dict.fromkeys(node.input[0] for node in model.graph.node if node.op_type == "Conv"))
    inputs = pictures((64, 96), (96, 64))
    same(collect(model, inputs, names, max_tensor_bytes=max_tensor_bytes, **EXACT), at_once(model, inputs, names))


def test_sampling_keeps_the_distribution() -> None:
    inputs = pictures((256, 256), (64, 64), (128, 256))
    sampled = collect(branched(), inputs, ["r1"], max_counted=20_000).tensors["r1"]
    exact = collect(branched(), inputs, ["r1"], **EXACT).tensors["r1"]
    assert (sampled.minimum, sampled.maximum) == (exact.minimum, exact.maximum)
    assert sampled.values == pytest.approx(exact.values, rel=0.001)
    cumulative = [np.cumsum(each.counts) / each.values for each in (sampled, exact)]
    assert np.abs(cumulative[0] - cumulative[1]).max() < 0.01


def test_what_nobody_asks_about_is_not_computed() -> None:
    model = branched()
    (piece,) = cut(model, [in_order(model, ["r1"])])
    assert (piece.start, piece.end, piece.gives) == (0, 4, ("r1",))
    first, second = cut(model, [["r1"], ["side"]])
    assert (first.gives, second.reads, second.gives) == (("r1",), ("r1",), ("side",))


def test_named_inputs_of_a_network_that_is_no_detector() -> None:
    given = [{"a": np.full((1, 4), value, np.float32), "b": np.ones((1, 3), np.float32)} for value in (1, -2)]
    found = collect(two_inputs(), given, ["a", "ab", "y"])
    assert found.tensors["a"].minimum == -2
    assert found.tensors["ab"].values == 6
    assert found.tensors["y"].magnitude == 2 * (2 + 5 + 8 + 11)


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"]])
def test_other_inputs_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match="the graph has"):
        collect(two_inputs(), [{name: np.ones((1, 4), np.float32) for name in names}], ["y"])


def test_nan_is_refused_with_the_name_of_the_tensor() -> None:
    good, bad = np.ones((1, 3), np.float32), np.array([[1, 0, 1]], np.float32)
    given = [{"a": np.ones((1, 4), np.float32), "b": b} for b in (good, bad)]
    with pytest.raises(UnavailableError, match="input 2: tensor y holds numbers that are not finite"):
        collect(two_inputs(), given, ["ab", "y"])


def test_wrong_tensors_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="no tensor nowhere"):
        collect(branched(), pictures((8, 8)), ["r1", "nowhere"])
    with pytest.raises(ValueError, match="tensor shape is of int64"):
        collect(branched(), pictures((8, 8)), ["shape"])
    with pytest.raises(UnavailableError, match="input 1: ONNX Runtime cannot run the graph"):
        collect(two_inputs(), [{"a": np.ones((1, 5), np.float32), "b": np.ones((1, 3), np.float32)}], ["y"])
    with pytest.raises(UnavailableError, match="no input"):
        collect(branched(), [], ["r1"])


def test_one_input_at_a_time_and_progress() -> None:
    alive: list[weakref.ref[Array]] = []
    most = 0

    def stream() -> Iterator[Array]:
        nonlocal most
        for _ in range(5):
            picture = pictures((16, 16))[0].copy()
            alive.append(weakref.ref(picture))
            most = max(most, sum(each() is not None for each in alive))
            yield picture
            del picture

    seen: list[tuple[int, int]] = []
    collect(branched(), stream(), ["float", "side"], lambda done, total: seen.append((done, total)))
    assert most <= 2        # the one that is made while the loop still names the one before
    assert seen == [(number, 0) for number in range(1, 6)]
    collect(branched(), pictures((16, 16)), ["side"], lambda done, total: seen.append((done, total)))
    assert seen[-1] == (1, 1)


MEASURE = """
import resource, sys
import numpy as np, onnx
from calibration.collect import collect
model = onnx.load("{graph}")
names = list(dict.fromkeys(node.input[0] for node in model.graph.node if node.op_type == "Conv"))
random = np.random.default_rng(0)
sizes = [(704, 1280), (352, 640), (1280, 704), (704, 1280)]
inputs = (random.integers(0, 256, (1, *size, 3), np.uint8) for size in sizes)
found = collect(model, inputs, names)
print(sum(each.values for each in found.tensors.values()) * 4, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_stays_bounded(shared_data: Path, tmp_path: Path) -> None:
    name = "centerface"
    path = tmp_path / "graph.onnx"
    path.write_bytes(build_graph(model_file(shared_data, name).read_bytes(), description(name)))
    code = MEASURE.format(graph=path)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    tensor_bytes, peak_kib = map(int, done.stdout.split())
    assert tensor_bytes > 1 << 30       # what all activations would take
    assert peak_kib < 1 << 20           # 1 GiB, ONNX Runtime and OpenCV included
