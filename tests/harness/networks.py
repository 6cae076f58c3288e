"""The networks that every graph pass is tried on, with real inputs at a small size."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import onnx

from calibration.collect import collect
from calibration.observers import amax
from calibration.placement import quantisable
from calibration.quantize import calibrated_tensors, quantize
from edge.graph.batch import fix_size, free_batch
from edge.graph.clean import simplify_network
from edge.graph.layers import layers
from edge.graph.names import INPUT
from edge.inference.onnx_runtime import load_onnxruntime
from edge.inference.prepare import reference_graph
from edge.models.description import description
from tests.harness import generator
from tests.unit.models.published import NAMES as DETECTORS
from tests.unit.models.published import model_file

Array = npt.NDArray[Any]

HEIGHT_PX, WIDTH_PX = 192, 320
OTHERS = {      # file, name and side of the input, factor from 8-bit samples
    "mobileface": ("embedding/mobileface_id_v2_256.onnx", "data", 112, 1.0),
    "realesr": ("generator/realesr_animevideov3_x4.onnx", "input", 32, 1 / 255),
}
NETWORKS = (*DETECTORS, *OTHERS, "generator")
CALIBRATED_WITH = 6


@dataclass(frozen=True)
class Network:
    """graph: float, batch free, sides fixed. ranges: by tensor. feed: an input that the ranges do not know, batch 1."""

    name: str
    graph: onnx.ModelProto
    ranges: dict[str, float]
    feed: dict[str, Array]

    def quantised(self, which: str) -> onnx.ModelProto:
        """``all`` that may be in INT8, or ``dense``: without first, last and depthwise layers."""
        return quantize(self.graph, self.ranges, self.chosen(which))

    def chosen(self, which: str) -> frozenset[str]:
        """Names of the layers."""
        allowed = quantisable(self.graph)
        if which == "all":
            return allowed
        return frozenset(
            layer.name
            for layer in layers(self.graph)
            if layer.name in allowed and layer.kind in ("dense", "pointwise") and not layer.first and not layer.last
        )


@functools.cache
def network(name: str, data: Path) -> Network:
    """One of `NETWORKS`. data: folder of the test data; not needed for the generator."""
    if name == "generator":
        graph = generator.generator(small=True)
        feeds: list[dict[str, Array]] = [dict(generator.inputs(1, seed)) for seed in range(CALIBRATED_WITH + 1)]
    elif name in DETECTORS:
        graph = reference_graph(model_file(data, name).read_bytes(), description(name))
        feeds = [{INPUT: photo[None]} for photo in photos(data, WIDTH_PX, HEIGHT_PX)]
    else:
        file, tensor, side, factor = OTHERS[name]
        graph = simplify_network(onnx.load(data / "models" / file), {tensor: (1, 3, side, side)})
        planes = [photo.transpose(2, 0, 1)[None].astype(np.float32) for photo in photos(data, side, side)]
        feeds = [{tensor: plane * np.float32(factor)} for plane in planes]
    ranges = amax(collect(graph, feeds[:-1], calibrated_tensors(graph)), "minmax")
    graph = free_batch(graph)
    if name in DETECTORS:
        graph = fix_size(graph, None, HEIGHT_PX, WIDTH_PX)
    return Network(name, graph, ranges, feeds[-1])


def photos(data: Path, width_px: int, height_px: int) -> list[npt.NDArray[np.uint8]]:
    """A few photos with faces, RGB (H, W, 3)."""
    files = sorted((data / "photos" / "calibration").iterdir())[: CALIBRATED_WITH + 1]
    size = (width_px, height_px)
    pictures = [cv2.resize(cv2.imread(str(file)), size, interpolation=cv2.INTER_AREA) for file in files]
    return [np.ascontiguousarray(picture[:, :, ::-1]).astype(np.uint8) for picture in pictures]


def run(graph: onnx.ModelProto, feed: Mapping[str, Array], optimised: bool = True) -> list[Array]:
    """Outputs of a graph that passes ONNX's own checks.

    optimised: ONNX Runtime 1.32 changes the numbers of FP16 Q/DQ graphs by up to 20 dB when it optimises them.
    """
    onnx.checker.check_model(graph, full_check=True)
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions()
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feed)))


def sqnr_db(wanted: Sequence[Array], found: Sequence[Array]) -> float:
    """Signal to quantisation noise of the worst output, in decibels."""
    ratios = []
    for want, got in zip(wanted, found, strict=True):
        noise = float(((want.astype(np.float64) - got) ** 2).sum())
        ratios.append(10 * np.log10(float((want.astype(np.float64) ** 2).sum()) / max(noise, 1e-30)))
    return float(min(ratios))
