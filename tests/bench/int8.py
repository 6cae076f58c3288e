"""INT8 against float on labelled photos: recall and average precision by the size of faces, and time per pass.

    python -m tests.bench.int8 ../shared/data [--models yunet_n centerface scrfd_500m] [--pictures 120]

Real detector, run-time scales for stills; ranges from the calibration photos; ONNX Runtime, one thread. Sizes: small
under 32 px, medium under 96 px, in pixels of the photo. Labels of all three files; IoU 0.3.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from build_engines.calibrate import CALIBRATION_SCALES, samples
from build_engines.candidates import base_plan, first_plans
from build_engines.frames import engine_sizes, search_size
from build_engines.labels import Group, Labels, LabelScore, read_labels, score_labels
from build_engines.network import detector_network
from build_engines.sensitivity import best_method
from build_engines.timing import time_in_turns
from calibration.collect import collect
from calibration.face_set import FaceSet, read_face_set
from calibration.inputs import inputs
from calibration.observers import METHODS, amax
from calibration.quantize import calibrated_tensors
from edge.detect.detector import Detector
from edge.engines.probe import probe_input
from edge.inference.local_network import LocalNetwork
from edge.inference.onnx_runtime import OnnxRuntime
from edge.models.choose import identify
from edge.pictures import read_picture
from edge.settings import DetectSettings
from tests.unit.models.published import model_file

LEAST_SCORE = 0.05
TIMED_PX = (384, 640)


def main(arguments: Sequence[str]) -> int:
    """Print one table row per model and plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", nargs="+", default=["yunet_n", "centerface", "scrfd_500m"])
    parser.add_argument("--pictures", type=int, default=120)
    given = parser.parse_args(arguments)
    face_set = read_face_set(given.data / "photos" / "calibration", limit=given.pictures)
    labels = [
        label
        for kind in ("human", "consensus", "landmarks")
        for label in read_labels(given.data / "photos" / f"labels_eval_{kind}.json", given.data)
    ]
    print(f"{len(face_set)} calibration pictures, {len(labels)} labelled photos", flush=True)
    for name in given.models:
        measure(name, model_file(given.data, name), face_set, labels)
    return 0


def measure(name: str, path: Path, face_set: FaceSet, labels: Sequence[Labels]) -> None:
    """All plans of one model."""
    resolved = identify(path)
    model = resolved.description
    size = search_size(engine_sizes([(1920, 1080)], model.input.stride_multiple))
    seen = samples(face_set.files, size, model.input.stride_multiple)
    network = detector_network(resolved, size.height_px, size.width_px, seen)
    histograms = collect(
        network.reference, inputs(face_set, model, CALIBRATION_SCALES), calibrated_tensors(network.reference)
    )
    ranges = {method: amax(histograms, method) for method in METHODS}
    plans = first_plans(network.layers, network.quantisable)
    method, noise = best_method(network, plans[min(1, len(plans) - 1)].int8, ranges.__getitem__)
    print(f"{name}: ranges by {method}", {each: f"{value:.2g}" for each, value in noise.items()})
    runtimes = {
        plan.name: OnnxRuntime(network.final("onnxruntime", ranges[method], plan.int8), plan.name)
        for plan in (base_plan("fp32"), *plans)
    }
    picture = probe_input(*TIMED_PX)
    runs = [lambda runtime=runtime: runtime.run(picture) for runtime in runtimes.values()]
    times = time_in_turns(list(runtimes), runs, 1)
    for timing, (plan, runtime) in zip(times, runtimes.items(), strict=True):
        scores = found_faces(Detector(DetectSettings(), LocalNetwork(runtime, model)), labels)
        cells = "  ".join(f"{group or 'all'} {_cell(score)}" for group, score in scores.items())
        print(f"{name:12} {plan:10} {timing.median_ms:7.2f} ms  {cells}", flush=True)
        runtime.close()


def found_faces(detector: Detector, labels: Sequence[Labels]) -> dict[Group, LabelScore]:
    """Score one detector on all labelled photos."""
    found = []
    for label in labels:
        picture = read_picture(label.path).picture
        scales = detector.scales_for(picture.width_px, picture.height_px, still=True)
        found.append(detector.detect(picture, scales, LEAST_SCORE))
    return score_labels(labels, found, detector.score_threshold)


def _cell(score: LabelScore) -> str:
    return f"{score.found}/{score.faces} {score.recall * 100:5.1f} AP {score.ap * 100:5.1f} false {score.false}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
