"""The first half of an INT8 build: the pictures, and the ranges of the network's tensors over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from build_engines.frames import EngineSize, as_frame
from build_engines.network import Network
from build_engines.progress import Display
from calibration.collect import collect
from calibration.face_set import FaceSet, read_face_set
from calibration.inputs import inputs
from calibration.quantize import calibrated_tensors
from calibration.ranges import Ranges, load, save
from calibration.split import split
from edge.detect.detector import Detector
from edge.detect.input import InputBuilder
from edge.detect.placement import place
from edge.errors import EdgeError
from edge.inference.local_network import LocalNetwork
from edge.inference.runtime import Runtime
from edge.models.choose import ResolvedModel
from edge.models.description import ModelDescription
from edge.pictures import read_picture
from edge.settings import DetectSettings

HELD_OUT = 0.4
"""Share of the pictures that candidates are judged on: ranges settle after a hundred pictures, while half a point of
recall takes hundreds of faces to see."""
CALIBRATION_SCALES = (320, 640)
"""Larger scales see the same things, larger; they would take three quarters of the time."""
SAMPLES = 6


@dataclass(frozen=True, slots=True)
class Pictures:
    """A set, the part to calibrate on and the part to judge on."""

    whole: FaceSet
    calibration: FaceSet
    held_out: FaceSet


def read_pictures(source: Path | None, resolved: ResolvedModel, runtime: Runtime, display: Display) -> Pictures:
    """Read and split a set. runtime: of the float model, to count faces. Raises what `read_face_set` raises."""
    display.stage(f"reading the calibration pictures: {source or 'the built-in set'}")
    detector = Detector(DetectSettings(), LocalNetwork(runtime, resolved.description))
    whole = read_face_set(source, detector, progress=display.step)
    for problem in whole.problems:
        display.note(f"calibration pictures: {problem}")
    return Pictures(whole, *split(whole, HELD_OUT))


def find_ranges(
    network: Network, model: ModelDescription, pictures: Pictures, given: Path | None, own: Path, display: Display
) -> tuple[Ranges, str]:
    """Ranges, and where they come from, for people.

    given: file that the user named; raises when it does not belong to the model. own: file of an earlier build, taken
    when it is of the same model and pictures, else written.
    """
    tensors = calibrated_tensors(network.reference)
    if given is not None:
        return load(given, network.sha256, tensors), f"ranges of {given}"
    if own.exists():
        try:
            ranges = load(own, network.sha256, tensors)
            if ranges.set_sha256 == pictures.calibration.sha256:
                return ranges, f"ranges of an earlier build over the same pictures, {own}"
        except EdgeError:
            pass        # of another version, or damaged: made anew
    display.stage(f"{network.name}: calibrating on {len(pictures.calibration)} pictures")
    seen = inputs(pictures.calibration, model, CALIBRATION_SCALES)
    histograms = collect(network.reference, seen, tensors, display.step)
    display.stage(f"{network.name}: choosing ranges")
    ranges = Ranges.of(histograms, pictures.calibration, network.name, network.sha256)
    save(ranges, own)
    return ranges, f"calibrated on {len(pictures.calibration)} pictures, {own}"


def samples(files: Sequence[Path], size: EngineSize, multiple: int) -> list[npt.NDArray[np.uint8]]:
    """Detector inputs of the size of an engine, from a few evenly spread pictures."""
    builder, made = InputBuilder(), []
    for path in files[:: max(1, len(files) // SAMPLES)][:SAMPLES]:
        frame = as_frame(read_picture(path).picture, size, multiple)
        placement = place(frame.width_px, frame.height_px, frame.pixel_aspect, size.scale_px, multiple)
        made.append(builder.build(frame, [placement])[0].copy())
    return made
