"""May a candidate be kept? Asked of faces found in held-out pictures, or of how close outputs are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from build_engines.choice import Verdict
from build_engines.confidence import largest_share
from build_engines.fidelity import Fidelity, Outputs, output_problem
from build_engines.frames import EngineSize, as_frame, mosaic
from build_engines.matching import SIZE_CLASSES
from build_engines.network import Feed
from build_engines.score import POOL_RATIO, DetectorScore, SizeScore, compare
from edge.detect.detector import Detector
from edge.errors import DetectorError
from edge.inference.local_network import LocalNetwork
from edge.inference.runtime import Runtime
from edge.models.choose import ResolvedModel
from edge.pictures import read_picture
from edge.settings import DetectSettings
from edge.types import Detections, Picture

MOSAICS = (2, 4, 6)
"""Every held-out picture is also looked at from afar, in mosaics with this many columns and rows."""
MIN_SMALL_FACES = 10
"""With fewer small faces nothing is known about them, and INT8 is not kept."""
MIN_MEAN_IOU = 0.75
"""Masks have to lie where the faces are: boxes that moved more than this on average are refused."""

Progress = Callable[[int, int], None]


class Judge(Protocol):
    """Looks at what a runtime gives."""

    def __call__(self, runtime: Runtime, progress: Progress) -> Verdict: ...


class DetectorJudge:
    """Compares the faces that a runtime finds in held-out pictures with those of the float model.

    The real detector reads, merges and maps back. files: pictures. size: detector input, and the frame it comes from.
    max_loss: share of faces that may be lost, overall and among small ones.
    """

    def __init__(
        self, resolved: ResolvedModel, files: Sequence[Path], size: EngineSize, max_loss: float, reference: Runtime
    ) -> None:
        self._resolved, self._files, self._size, self.max_loss = resolved, files, size, max_loss
        self._threshold = resolved.description.score_threshold
        self._runtime = reference
        self._reference: list[Detections] | None = None

    def prepare(self, progress: Progress = lambda done, total: None) -> None:
        """Find the faces of the float model; done by the first call otherwise."""
        if self._reference is None:
            self._reference = self._detections(self._runtime, progress)

    def __call__(self, runtime: Runtime, progress: Progress = lambda done, total: None) -> Verdict:
        """Raises DeviceLostError; a failed run or useless numbers are a verdict."""
        self.prepare()
        assert self._reference is not None
        try:
            score = compare(self._reference, self._detections(runtime, progress), self._threshold)
        except DetectorError as error:
            return Verdict(False, error.message)
        return judged(score, self.max_loss)

    def _detections(self, runtime: Runtime, progress: Progress) -> list[Detections]:
        detector = Detector(DetectSettings(), LocalNetwork(runtime, self._resolved.description))
        multiple = self._resolved.description.input.stride_multiple
        found: list[Detections] = []
        mosaics: dict[int, list[Picture]] = {columns: [] for columns in MOSAICS}
        for number, path in enumerate(self._files):
            picture = read_picture(path).picture
            found.append(self._detect(detector, as_frame(picture, self._size, multiple)))
            for columns, waiting in mosaics.items():
                waiting.append(picture)
                if len(waiting) == columns * columns or number == len(self._files) - 1:
                    found.append(self._detect(detector, mosaic(waiting, self._size, columns)))
                    waiting.clear()
            progress(number + 1, len(self._files))
        return found

    def _detect(self, detector: Detector, frame: Picture) -> Detections:
        return detector.detect(frame, (self._size.scale_px,), POOL_RATIO * self._threshold)


def judged(score: DetectorScore, max_loss: float) -> Verdict:
    """The recall rule.

    Refused when, overall or among small faces, more than `max_loss` of the faces or of the clear faces are lost, or
    boxes have moved. One face is not counted as a decline, unless it is a clear one: at the threshold one always flips.
    """
    total, small = score.all, score.by_size["small"]
    problems = []
    for what, part in (("", total), ("small ", small)):
        lost = part.reference - part.kept - part.gained
        if lost > max(max_loss * part.reference, 1):
            problems.append(f"loses {part.loss * 100:.1f} points of {what}faces ({lost} of {part.reference})")
        elif part.clear_loss > max_loss:
            gone = part.clear - part.clear_kept
            problems.append(f"misses {gone} of {part.clear} clear {what}faces")
    if total.mean_iou < MIN_MEAN_IOU:
        problems.append(f"boxes overlap by {total.mean_iou:.2f} only")
    unproven = ""
    if total.reference == 0:
        unproven = "the float model itself finds no face in the held-out pictures"
    elif small.reference < MIN_SMALL_FACES:
        unproven = f"only {small.reference} small faces to judge on, {MIN_SMALL_FACES} are needed"
    why = "; ".join(dict.fromkeys(problems))
    return Verdict(not problems, why, scores(score), claims(score, max_loss), unproven)


def scores(score: DetectorScore) -> dict[str, float]:
    """By name, rounded, for manifests and reports."""
    values: dict[str, float] = {}
    parts: list[tuple[str, SizeScore]] = [("", score.all)]
    parts += [(f"_{name}", score.by_size[name]) for name in SIZE_CLASSES]
    for suffix, part in parts:
        values[f"faces{suffix}"] = part.reference
        values[f"recall{suffix}"] = round(part.recall, 5)
        values[f"loss{suffix}"] = round(part.loss, 5)
        values[f"clear_loss{suffix}"] = round(part.clear_loss, 5)
        values[f"precision{suffix}"] = round(part.precision, 5)
        values[f"iou{suffix}"] = round(part.mean_iou, 5)
        values[f"centre_error{suffix}"] = round(part.centre_error, 5)
    return values


def claims(score: DetectorScore, max_loss: float) -> tuple[str, ...]:
    """What so many faces can show, and what not."""
    notes = []
    for what, part in (("", score.all), ("small ", score.by_size["small"])):
        lost = max(0, part.reference - part.kept - part.gained)
        limit = largest_share(lost, part.reference)
        if part.reference and limit > max_loss:
            notes.append(
                f"with {part.reference} {what}faces a loss of up to {limit * 100:.1f} points could go unseen "
                "(95 % confidence); more held-out pictures tell more"
            )
    return tuple(notes)


class FidelityJudge:
    """Compares the outputs of any network for given inputs with those of its float version.

    measure: `build_engines.fidelity.compare_embeddings` or ``compare_pictures``. least_mean, least_worst: of it.
    """

    def __init__(
        self,
        feeds: Sequence[Feed],
        reference: Sequence[Outputs],
        measure: Callable[[Sequence[Outputs], Sequence[Outputs]], Fidelity],
        least_mean: float = 0.98,
        least_worst: float = 0.95,
    ) -> None:
        self._feeds, self._reference, self._measure = feeds, reference, measure
        self._least = (least_mean, least_worst)

    def __call__(self, runtime: Runtime, progress: Progress = lambda done, total: None) -> Verdict:
        """See `Judge`; the runtime has ``run_network``."""
        given: list[Outputs] = []
        for number, feed in enumerate(self._feeds):
            try:
                given.append(runtime.run_network(feed))     # type: ignore[attr-defined]
            except DetectorError as error:
                return Verdict(False, error.message)
            if problem := output_problem(given[-1]):
                return Verdict(False, problem)
            progress(number + 1, len(self._feeds))
        found = self._measure(self._reference, given)
        mean, worst = self._least
        problem = found.problem
        if not problem and (found.mean < mean or found.worst < worst):
            problem = (
                f"{found.measure} {found.mean:.3f} on average and {found.worst:.3f} at worst, {mean} and {worst} are "
                "needed"
            )
        values = {f"{found.measure}_mean": round(found.mean, 5), f"{found.measure}_worst": round(found.worst, 5)}
        return Verdict(not problem, problem, {} if found.problem else values)
