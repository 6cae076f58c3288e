"""Networks and inputs for the tests on the GPU machine, made beforehand where the models and all packages are.

    python -m tests.gpu.graphs .gpu/graphs      # on a machine with the test data; writes about 50 MB

Bring the folder to the GPU machine, put it where it stays, and name that place in $EDGE_GPU_GRAPHS.

For each network NAME.onnx and NAME.int8.onnx (every side fixed but the batch) and NAME.npz (eight inputs, from real
photos); yunet_n.published.onnx, as it is fetched; clip.npz, frames of a real clip in NV12.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import onnx

from edge.detect.input import InputBuilder
from edge.detect.placement import place
from edge.graph.clean import simplify_network
from edge.inference.prepare import read_model, reference_graph
from edge.models.description import ModelDescription, description
from edge.types import Picture, Plane, UInt8
from tests.gpu.variants import write
from tests.unit.models.published import model_file

# name: model, width and height of a picture, scale; what they give is the size of the engine
DETECTORS = {
    "yunet_n": ("yunet_n", 1280, 768, 640),
    "yunet_n_small": ("yunet_n", 1280, 768, 320),
    "centerface": ("centerface", 1280, 768, 640),
    "scrfd_500m": ("scrfd_500m", 1080, 1080, 640),
    "retinaface_mb025": ("retinaface_mb025", 1280, 768, 640),
}
# name: file; input; height, width; what is taken off a pixel and what it is then divided by
OTHERS = {
    "mobileface": ("embedding/mobileface_id_v3_256.onnx", "data", 112, 112, 127.5, 127.5),
    "realesr": ("generator/realesr_animevideov3_x4.onnx", "input", 128, 160, 0.0, 255.0),
}
CALIBRATION_PHOTOS = 40
CLIP, CLIP_FRAMES, CLIP_SIZE = "single_face_01.mp4", 8, (1280, 768)


def main(arguments: Sequence[str]) -> int:
    """Write everything into the folder that is named."""
    target, data = Path(arguments[0]), Path(__file__).parents[3] / "shared" / "data"
    target.mkdir(parents=True, exist_ok=True)
    photos = sorted((data / "photos" / "calibration").iterdir())[:CALIBRATION_PHOTOS]
    for name, (described, width, height, scale) in DETECTORS.items():
        model = description(described)
        inputs = [{"picture": detector_input(photo, model, width, height, scale)} for photo in photos]
        write(target, name, reference_graph(read_model(model_file(data, described)), model), inputs)
    for name, (file, tensor, height, width, mean, scale_) in OTHERS.items():
        inputs = [{tensor: crop(photo, height, width, mean, scale_)} for photo in photos]
        network = simplify_network(onnx.load(data / "models" / file), {tensor: (1, 3, height, width)})
        write(target, name, network, inputs)
    (target / "yunet_n.published.onnx").write_bytes(model_file(data, "yunet_n").read_bytes())
    luma, chroma = nv12_frames(data / "videos" / "real" / CLIP)
    np.savez_compressed(target / "clip.npz", luma=luma, chroma=chroma)
    return 0


def detector_input(photo: Path, model: ModelDescription, width_px: int, height_px: int, scale_px: int) -> UInt8:
    """A photo, as if a camera of this size had taken it, as the detector gets it."""
    picture = Picture(width_px, height_px, "bgr", (Plane(resized(photo, width_px, height_px)),))
    placement = place(width_px, height_px, picture.pixel_aspect, scale_px, model.input.stride_multiple)
    return InputBuilder().build(picture, [placement])[0].copy()


def crop(photo: Path, height_px: int, width_px: int, mean: float, scale: float) -> npt.NDArray[np.float32]:
    """A photo as float32 (1, 3, H, W), red first."""
    pixels = resized(photo, width_px, height_px)[:, :, ::-1].transpose(2, 0, 1)[None]
    return np.ascontiguousarray((pixels - np.float32(mean)) / np.float32(scale), np.float32)


def resized(photo: Path, width_px: int, height_px: int) -> UInt8:
    """Pixels of a photo, blue first."""
    pixels = cv2.imread(str(photo))
    assert pixels is not None, photo
    return cv2.resize(pixels, (width_px, height_px), interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)


def nv12_frames(clip: Path) -> tuple[UInt8, UInt8]:
    """Frames spread over a clip: luma (N, H, W) and chroma (N, H/2, W/2, 2)."""
    both = list(_nv12(clip))
    return np.stack([luma for luma, _ in both]), np.stack([chroma for _, chroma in both])


def _nv12(clip: Path) -> Iterator[tuple[UInt8, UInt8]]:
    capture = cv2.VideoCapture(str(clip))
    count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    for number in range(CLIP_FRAMES):
        capture.set(cv2.CAP_PROP_POS_FRAMES, number * count // CLIP_FRAMES)
        done, pixels = capture.read()
        assert done, f"{clip}: no frame {number}"
        width, height = CLIP_SIZE
        planar = cv2.cvtColor(cv2.resize(pixels, CLIP_SIZE, interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2YUV_I420)
        planar = planar.astype(np.uint8, copy=False)
        yield planar[:height], planar[height:].reshape(2, height // 2, width // 2).transpose(1, 2, 0)
    capture.release()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
