"""Networks and inputs for the tests on the GPU machine, made beforehand where the models and all packages are.

    python -m tests.gpu.graphs .gpu/graphs      # on a machine with the test data; writes a few MB

For each network NAME.onnx (every side fixed but the batch) and NAME.npz (eight inputs, cut from real photos).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from edge.detect.input import InputBuilder
from edge.detect.placement import place
from edge.inference import prepare
from edge.models.description import ModelDescription, description
from edge.types import Picture, Plane, UInt8
from tests.unit.models.published import model_file

# width, height of a picture; scale; what that gives is the size of the engine
DETECTORS = {"yunet_n": (1920, 1152, 640), "centerface": (1920, 1152, 640), "scrfd_500m": (1080, 1080, 640)}
INPUTS = 8


def main(arguments: Sequence[str]) -> int:
    """Write everything into the folder that is named."""
    target, data = Path(arguments[0]), Path(__file__).parents[3] / "shared" / "data"
    target.mkdir(parents=True, exist_ok=True)
    photos = sorted((data / "photos" / "calibration").iterdir())[:INPUTS]
    for name, (width, height, scale) in DETECTORS.items():
        model = description(name)
        inputs = np.concatenate([detector_input(photo, model, width, height, scale) for photo in photos])
        graph = free_graph(model_file(data, name), model, inputs.shape[1], inputs.shape[2])
        (target / f"{name}.onnx").write_bytes(graph)
        np.savez_compressed(target / f"{name}.npz", picture=inputs)
        print(f"{name}: {inputs.shape[2]}x{inputs.shape[1]}, {len(graph) >> 10} KiB")
    return 0


def free_graph(path: Path, model: ModelDescription, height_px: int, width_px: int) -> bytes:
    """The graph of a detector with a free batch, as TensorRT is given it."""
    from edge.graph.batch import fix_size, free_batch

    graph = free_batch(prepare.reference_graph(prepare.read_model(path), model))
    return bytes(fix_size(graph, None, height_px, width_px).SerializeToString())


def detector_input(photo: Path, model: ModelDescription, width_px: int, height_px: int, scale_px: int) -> UInt8:
    """A photo, as if a camera of this size had taken it, as the detector gets it."""
    pixels = cv2.imread(str(photo))
    assert pixels is not None
    pixels = cv2.resize(pixels, (width_px, height_px), interpolation=cv2.INTER_AREA)
    picture = Picture(width_px, height_px, "bgr", (Plane(pixels),))
    placement = place(width_px, height_px, picture.pixel_aspect, scale_px, model.input.stride_multiple)
    return InputBuilder().build(picture, [placement])[0].copy()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
