"""A prepared graph gives what the published one gives, on real pictures of many sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import onnx
import pytest

from edge.graph.names import INPUT, map_name
from edge.inference.onnx_runtime import load_onnxruntime
from edge.inference.prepare import build_graph
from edge.models.description import Head, ModelDescription, descriptions
from tests.unit.models.published import NAMES, model_file

Array = npt.NDArray[Any]
SIZES_PX = ((384, 640), (192, 320), (352, 224), (32, 32), (64, 96), (704, 1280))

# Largest difference allowed: scores are probabilities, boxes and landmarks are in cells or logarithms of cells.
TOLERANCE = {"score": 5e-6, "box": 2e-4, "landmarks": 2e-4}


def session(model: bytes | str) -> Any:
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def published_input(model: ModelDescription, picture: Array) -> Array:
    """What the authors' own code feeds for an RGB picture (H, W, 3)."""
    ordered = picture if model.input.colour == "rgb" else picture[:, :, ::-1]
    values = (ordered.astype(np.float32) - np.float32(model.input.mean)) * np.float32(model.input.scale)
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None])


def activated(head: Head, values: Array) -> Array:
    if head.activation == "sigmoid":
        return 1 / (1 + np.exp(-values))
    if head.activation == "softmax":
        powers = np.exp(values - values.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
    return values


def as_rows(model: ModelDescription, head: Head, output: Array) -> Array:
    """A published output as (cells * anchors, channels)."""
    if output.ndim == 4:
        output = output.transpose(0, 2, 3, 1)
    return output.reshape(-1, head.channels)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_the_same(shared_data: Path, name: str) -> None:
    model, path = descriptions()[name], model_file(shared_data, name)
    before, after = session(str(path)), session(build_graph(path.read_bytes(), model))
    photo = cv2.imread(str(shared_data / "photos/eval_consensus/ec_0005.jpg"))
    for height, width in SIZES_PX:
        picture = cv2.cvtColor(cv2.resize(photo, (width, height)), cv2.COLOR_BGR2RGB)
        names = [output.name for output in before.get_outputs()]
        feed = {before.get_inputs()[0].name: published_input(model, picture)}
        expected = dict(zip(names, before.run(names, feed), strict=True))
        wanted = [map_name(stride) for stride in model.strides]
        maps = dict(zip(wanted, after.run(wanted, {INPUT: picture[None]}), strict=True))
        first = 0
        for head in model.heads:
            count = head.channels * model.anchors
            found = [
                maps[name][0, first : first + count].reshape(count, -1).T.reshape(-1, head.channels) for name in wanted
            ]
            first += count
            there = [as_rows(model, head, expected[output]) for output in model.output_names(head)]
            difference = np.abs(activated(head, np.concatenate(found)) - np.concatenate(there)).max()
            assert difference <= TOLERANCE[head.role], f"{head.output} at {width}x{height}"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_arithmetic_is_left(shared_data: Path, name: str) -> None:
    model = descriptions()[name]
    graph = onnx.load_from_string(build_graph(model_file(shared_data, name).read_bytes(), model)).graph
    kinds = {node.op_type for node in graph.node}
    assert not kinds & {"BatchNormalization", "Sigmoid", "Softmax", "Reshape", "Identity", "Constant"}
    assert [value.name for value in graph.input] == [INPUT]
    assert graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8
    assert [value.name for value in graph.output] == [map_name(stride) for stride in model.strides]
