"""From ranges to a graph that says itself what runs in INT8: explicit QuantizeLinear and DequantizeLinear nodes.

What every reader accepts (TensorRT 8.6 to 11, TensorRT-RTX, ONNX Runtime): opset 13, signed and symmetric, zero-point
0, one scale per tensor for activations and one per output channel for weights, biases left in float. Weights stay
float in the file, in front of a Q/DQ pair of their own: TensorRT 8.6 fails with int8 weights in front of a DQ alone
("chooseHigherPrecision").
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from calibration.placement import Placement, place, possible_tensors
from edge.errors import ConfigError
from edge.graph.clean import raise_opset
from edge.graph.index import Array, GraphIndex, add_constant, sweep
from edge.graph.layers import is_layer, output_axis

LEVELS = 127        # of either sign; -128 is not used, so that the range is symmetric
_ZERO = "int8_zero"


def calibrated_tensors(model: onnx.ModelProto, int8: Collection[str] | None = None) -> tuple[str, ...]:
    """The tensors whose ranges `quantize` needs for these layers (None: for any choice of layers), in graph order."""
    return possible_tensors(model) if int8 is None else place(model, int8).ranged


def quantize(model: onnx.ModelProto, amax: Mapping[str, float], int8: Collection[str]) -> onnx.ModelProto:
    """The same network with the layers named in `int8` working on INT8.

    model: float; any batch and size. amax: largest magnitude to represent, by tensor; see `calibrated_tensors`.
    int8: from `calibration.placement.quantisable`; empty gives the model as it is.

    Raises ConfigError when a range is missing or no positive number; ValueError when a layer cannot be quantised.
    """
    model = raise_opset(model)
    graph = model.graph
    placement = place(model, int8)
    scales = _scales(placement, amax)
    index = GraphIndex(graph)
    if int8:
        add_constant(graph, _ZERO, np.zeros((), np.int8))
    added = [*_quantise_activations(graph, index, placement, scales), *_quantise_weights(graph, index, int8)]
    graph.node.extend(added)
    sweep(graph)
    return model


def weight_scales(weights: Array, axis: int) -> Array:
    """Step size per output channel, float32: the largest magnitude is 127 steps. 1 where all weights are 0."""
    others = tuple(each for each in range(weights.ndim) if each != axis)
    largest = np.abs(weights).max(axis=others)
    # A subnormal step would divide to infinity.
    return np.where(largest > LEVELS * np.finfo(np.float32).tiny, largest / LEVELS, 1).astype(np.float32)


def _scales(placement: Placement, amax: Mapping[str, float]) -> dict[str, float]:
    """Step size per group of tensors. A group has the widest range of those in it."""
    missing = [name for name in placement.ranged if name not in amax]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ConfigError(
            f"the ranges do not hold tensor {missing[0]}{more}", "calibrate again: edge-build --int8 without --ranges"
        )
    largest: dict[str, float] = {}
    for name in placement.ranged:
        if not math.isfinite(amax[name]) or amax[name] < 0:
            raise ConfigError(
                f"the range of tensor {name} is {amax[name]}", "calibrate again: edge-build --int8 without --ranges"
            )
        root = placement.group[name]
        largest[root] = max(largest.get(root, 0.0), amax[name])
    return {root: value / LEVELS if value > 1e-30 else 1.0 for root, value in largest.items()}     # all zero: any


def _quantise_activations(
    graph: onnx.GraphProto, index: GraphIndex, placement: Placement, scales: Mapping[str, float]
) -> list[onnx.NodeProto]:
    added = []
    for root, scale in scales.items():
        add_constant(graph, f"{root}/scale", np.asarray(scale, np.float32))
    for tensor, edges in placement.readers.items():
        added += _pair(tensor, f"{placement.group[tensor]}/scale", _ZERO, None)
        for reader, place_in in edges:
            index.producers[reader].input[place_in] = f"{tensor}/dequantized"
    return added


def _quantise_weights(graph: onnx.GraphProto, index: GraphIndex, int8: Collection[str]) -> list[onnx.NodeProto]:
    added: list[onnx.NodeProto] = []
    done: set[str] = set()
    for node in [node for node in graph.node if node.output[0] in int8 and is_layer(index, node)]:
        name, axis = node.input[1], output_axis(node)
        node.input[1] = f"{name}/dequantized"
        if name in done:        # two layers with the same weights
            continue
        done.add(name)
        steps = weight_scales(index.constant(name), axis)
        scale = add_constant(graph, f"{name}/scale", steps)
        zero = add_constant(graph, f"{name}/zero", np.zeros(len(steps), np.int8))
        added += _pair(name, scale, zero, axis)
    return added


def _pair(tensor: str, scale: str, zero: str, axis: int | None) -> list[onnx.NodeProto]:
    """Quantise `tensor` to ``{tensor}/int8`` and back to ``{tensor}/dequantized``."""
    where: dict[str, Any] = {} if axis is None else {"axis": axis}
    q, dq = f"{tensor}/int8", f"{tensor}/dequantized"
    return [
        helper.make_node("QuantizeLinear", [tensor, scale, zero], [q], f"{tensor}/quantize", **where),
        helper.make_node("DequantizeLinear", [q, scale, zero], [dq], f"{tensor}/dequantize", **where),
    ]
