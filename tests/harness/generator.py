"""A network shaped like the face-swapping generator inswapper_128, with random weights.

    python -m tests.harness.generator FILE.onnx [--small]       # 553 MB, or 2 MB

Needs numpy and onnx only. An encoder from 128x128 down to 1024 channels at 16x16, six residual blocks whose
convolutions are normalised over space and then scaled and shifted by what a 512-vector says (AdaIN: Huang and
Belongie 2017), a decoder with bilinear enlargement. As in the real one, 14 convolutions have a padding by reflection of
their own in front (github.com/microsoft/onnxruntime/issues/28022). The same seed gives the same weights everywhere.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Float32 = npt.NDArray[np.float32]

SIDE_PX = 128
SOURCE = 512
_EPSILON = 1e-8


def generator(small: bool = False, seed: int = 7) -> onnx.ModelProto:
    """float32 ``target`` (batch, 3, 128, 128) in 0..1 and ``source`` (batch, 512) of length 1 in; ``output``
    (batch, 3, 128, 128) in 0..1 out. small: 1/16 of the channels and two blocks instead of six.
    """
    return _Writer(16 if small else 1, seed).model(2 if small else 6)


def inputs(batch: int = 1, seed: int = 1) -> dict[str, Float32]:
    """Something smooth that fills the range, and unit vectors."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:SIDE_PX, 0:SIDE_PX].astype(np.float32) / SIDE_PX
    waves = random.uniform(1, 12, (batch, 3, 2, 1, 1)).astype(np.float32)
    phases = random.uniform(0, 6, (batch, 3, 1, 1)).astype(np.float32)
    target = 0.5 + 0.45 * np.sin(waves[:, :, 0] * rows + waves[:, :, 1] * columns + phases)
    target += random.normal(0, 0.02, target.shape).astype(np.float32)
    source = random.normal(size=(batch, SOURCE)).astype(np.float32)
    source /= np.linalg.norm(source, axis=1, keepdims=True)
    return {"target": np.clip(target, 0, 1).astype(np.float32), "source": source}


class _Writer:
    """Appends nodes; each method returns the name of the tensor it makes."""

    def __init__(self, divisor: int, seed: int) -> None:
        self._divisor = divisor
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._tensors: list[onnx.TensorProto] = []

    def model(self, blocks: int) -> onnx.ModelProto:
        widths = [width // self._divisor for width in (128, 256, 512, 1024)]
        x = self._leaky(self._conv(self._pad("target", 3, "first"), 3, widths[0], 7, "first"), "first")
        for before, after in itertools.pairwise(widths):
            x = self._leaky(self._conv(x, before, after, 3, f"down_{after}", stride=2, padding=1), f"down_{after}")
        for number in range(blocks):
            x = self._block(x, widths[-1], f"block_{number}")
        for before, after in itertools.pairwise(widths[::-1]):
            name = f"up_{after}"
            factors = self._constant(f"{name}_factors", np.asarray([1, 1, 2, 2], np.float32))
            x = self._node("Resize", [x, "", factors], f"{name}_larger", mode="linear",
                           coordinate_transformation_mode="half_pixel")     # fmt: skip
            x = self._leaky(self._conv(x, before, after, 3, name, padding=1), name)
        # Less than He's gain: it ends in tanh, which should not be at its limits.
        x = self._conv(self._pad(x, 3, "last"), widths[0], 3, 7, "last", gain=0.3)
        x = self._node("Tanh", [x], "tanh")
        x = self._node("Add", [x, self._constant("one", np.ones(1, np.float32))], "positive")
        self._node("Mul", [x, self._constant("half", np.full(1, 0.5, np.float32))], "output")
        values = [
            helper.make_tensor_value_info("target", TensorProto.FLOAT, ["batch", 3, SIDE_PX, SIDE_PX]),
            helper.make_tensor_value_info("source", TensorProto.FLOAT, ["batch", SOURCE]),
            helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 3, SIDE_PX, SIDE_PX]),
        ]
        graph = helper.make_graph(self._nodes, "generator", values[:2], values[2:], self._tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)

    def _block(self, x: str, channels: int, name: str) -> str:
        y = x
        for number in (1, 2):
            part = f"{name}_{number}"
            y = self._conv(self._pad(y, 1, part), channels, channels, 3, part)
            y = self._styled(y, channels, part)
            if number == 1:
                y = self._node("Relu", [y], f"{part}_relu")
        return self._node("Add", [x, y], f"{name}_sum")

    def _styled(self, x: str, channels: int, name: str) -> str:
        """Adaptive instance normalisation, in the small steps that PyTorch exports."""
        weights = self._weights((2 * channels, SOURCE), 1.0, f"{name}_style_weights")
        bias = np.concatenate([np.ones(channels, np.float32), np.zeros(channels, np.float32)])
        style = self._node("Gemm", ["source", weights, self._constant(f"{name}_style_bias", bias)], f"{name}_style",
                           transB=1)     # fmt: skip
        style = self._node("Unsqueeze", [style, self._shared("space", [2, 3])], f"{name}_style_map")
        gamma, beta = f"{name}_gamma", f"{name}_beta"
        halves = self._constant(f"{name}_halves", np.asarray([channels, channels], np.int64))
        self._nodes.append(helper.make_node("Split", [style, halves], [gamma, beta], axis=1))
        mean = self._node("ReduceMean", [x], f"{name}_mean", axes=[2, 3])
        centred = self._node("Sub", [x, mean], f"{name}_centred")
        squared = self._node("Mul", [centred, centred], f"{name}_squared")
        variance = self._node("ReduceMean", [squared], f"{name}_variance", axes=[2, 3])
        epsilon = self._constant(f"{name}_epsilon", np.full(1, _EPSILON, np.float32))
        root = self._node("Sqrt", [self._node("Add", [variance, epsilon], f"{name}_positive")], f"{name}_deviation")
        factor = self._node("Div", [self._constant(f"{name}_one", np.ones(1, np.float32)), root], f"{name}_factor")
        normal = self._node("Mul", [centred, factor], f"{name}_normal")
        return self._node("Add", [self._node("Mul", [normal, gamma], f"{name}_scaled"), beta], f"{name}_styled")

    def _conv(
        self, x: str, before: int, after: int, kernel: int, name: str, stride: int = 1, padding: int = 0,
        gain: float = 2**0.5,
    ) -> str:   # fmt: skip
        weights = self._weights((after, before, kernel, kernel), gain / (before * kernel**2) ** 0.5, f"{name}_weights")
        bias = self._weights((after,), 0.1, f"{name}_bias")
        return self._node("Conv", [x, weights, bias], f"{name}_conv", kernel_shape=[kernel] * 2, strides=[stride] * 2,
                          pads=[padding] * 4)     # fmt: skip

    def _pad(self, x: str, width: int, name: str) -> str:
        pads = self._shared(f"pads_{width}", [0, 0, width, width, 0, 0, width, width])
        return self._node("Pad", [x, pads], f"{name}_padded", mode="reflect")

    def _leaky(self, x: str, name: str) -> str:
        return self._node("LeakyRelu", [x], f"{name}_leaky", alpha=0.2)

    def _weights(self, shape: Sequence[int], deviation: float, name: str) -> str:
        values = self._random.standard_normal(shape, dtype=np.float32)
        values *= np.float32(deviation)
        return self._constant(name, values)

    def _shared(self, name: str, values: Sequence[int]) -> str:
        if all(tensor.name != name for tensor in self._tensors):
            self._constant(name, np.asarray(values, np.int64))
        return name

    def _constant(self, name: str, value: npt.NDArray[Any]) -> str:
        self._tensors.append(numpy_helper.from_array(value, name))
        return name

    def _node(self, kind: str, sources: Sequence[str], name: str, **values: Any) -> str:
        self._nodes.append(helper.make_node(kind, list(sources), [name], **values))
        return name


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(generator("--small" in sys.argv).SerializeToString())
