"""Networks and inputs for the tests on the GPU machine, made beforehand where the models and all packages are.

    python -m tests.gpu.graphs .gpu/graphs      # on a machine with the test data; writes a few MB

For each network NAME.onnx (every side fixed but the batch) and NAME.npz (eight inputs, from real photos where it is a
detector); yunet_n.published.onnx, as it is fetched; clip.npz, frames of a real clip in NV12.
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

# name: model, width and height of a picture, scale; what they give is the size of the engine
DETECTORS = {
    "yunet_n": ("yunet_n", 1280, 768, 640),
    "yunet_n_small": ("yunet_n", 1280, 768, 320),
    "centerface": ("centerface", 1280, 768, 640),
    "scrfd_500m": ("scrfd_500m", 1080, 1080, 640),
    "retinaface_mb025": ("retinaface_mb025", 1280, 768, 640),
}
INPUTS = 8
CLIP, CLIP_FRAMES, CLIP_SIZE = "single_face_01.mp4", 8, (1280, 768)


def main(arguments: Sequence[str]) -> int:
    """Write everything into the folder that is named."""
    target, data = Path(arguments[0]), Path(__file__).parents[3] / "shared" / "data"
    target.mkdir(parents=True, exist_ok=True)
    photos = sorted((data / "photos" / "calibration").iterdir())[:INPUTS]
    for name, (described, width, height, scale) in DETECTORS.items():
        model = description(described)
        inputs = np.concatenate([detector_input(photo, model, width, height, scale) for photo in photos])
        graph = free_graph(model_file(data, described), model, inputs.shape[1], inputs.shape[2])
        (target / f"{name}.onnx").write_bytes(graph)
        np.savez_compressed(target / f"{name}.npz", picture=inputs)
        print(f"{name}: {inputs.shape[2]}x{inputs.shape[1]}, {len(graph) >> 10} KiB")
    (target / "yunet_n.published.onnx").write_bytes(model_file(data, "yunet_n").read_bytes())
    luma, chroma = nv12_frames(data / "videos" / "real" / CLIP)
    np.savez_compressed(target / "clip.npz", luma=luma, chroma=chroma)
    return 0


def nv12_frames(clip: Path) -> tuple[UInt8, UInt8]:
    """Frames spread over a clip: luma (N, H, W) and chroma (N, H/2, W/2, 2)."""
    capture = cv2.VideoCapture(str(clip))
    count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    lumas, chromas = [], []
    for number in range(CLIP_FRAMES):
        capture.set(cv2.CAP_PROP_POS_FRAMES, number * count // CLIP_FRAMES)
        done, pixels = capture.read()
        assert done, f"{clip}: no frame {number}"
        width, height = CLIP_SIZE
        planar = cv2.cvtColor(cv2.resize(pixels, CLIP_SIZE, interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2YUV_I420)
        lumas.append(planar[:height])
        chromas.append(planar[height:].reshape(2, height // 2, width // 2).transpose(1, 2, 0))
    capture.release()
    return np.stack(lumas).astype(np.uint8), np.stack(chromas).astype(np.uint8)


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
