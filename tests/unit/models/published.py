"""The model files of the test data, by the name of their description."""

from __future__ import annotations

from pathlib import Path

FILES = {
    "yunet_n": "models/detectors/yunet_n_dynamic.onnx",
    "centerface": "models/detectors/centerface_dynamic.onnx",
    "retinaface_mb025": "models/detectors/retinaface_mb025_dynamic.onnx",
    "scrfd_500m": "models/detectors_noncommercial/scrfd_500m_bnkps_dynamic.onnx",
}
NAMES = tuple(FILES)


def model_file(shared_data: Path, name: str) -> Path:
    return shared_data / FILES[name]
