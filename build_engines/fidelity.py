"""How close the outputs of any network are to those of its float version: embeddings, pictures, plain tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from edge.types import Float32

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
_SSIM_WINDOW, _SSIM_SIGMA = (11, 11), 1.5
_SSIM_K1, _SSIM_K2 = 0.01, 0.03


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Worst and mean value of a measure over all inputs, larger is better. problem: why outputs are of no use."""

    measure: str
    worst: float
    mean: float
    problem: str = ""


def output_problem(outputs: Outputs) -> str:
    """What makes outputs useless: numbers that are not finite, or the same one everywhere. Empty when nothing does."""
    for name, values in outputs.items():
        if not np.isfinite(values).all():
            return f"{name} has numbers that are not finite"
        if values.size > 1 and float(np.ptp(values)) == 0:
            return f"{name} is {float(values.flat[0]):g} everywhere"
    return ""


def cosine(reference: Array, given: Array) -> float:
    """Cosine of the angle between two embeddings of any shape; 0 when one of them is zero."""
    one, other = np.ravel(reference).astype(np.float64), np.ravel(given).astype(np.float64)
    size = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / size if size > 0 else 0.0


def psnr_db(reference: Array, given: Array) -> float:
    """Peak signal to noise ratio; the peak is the reference's own range of values. At most 200."""
    difference = reference.astype(np.float64) - given
    peak = float(np.ptp(reference)) or 1.0
    return float(min(200.0, 10 * np.log10(peak**2 / max(float(np.mean(difference**2)), 1e-30))))


def ssim(reference: Float32, given: Float32) -> float:
    """Structural similarity (Wang et al. 2004, 11x11 Gaussian window) of pictures (C, H, W), mean over channels.

    The dynamic range is the reference's own.
    """
    span = float(np.ptp(reference)) or 1.0
    c1, c2 = (_SSIM_K1 * span) ** 2, (_SSIM_K2 * span) ** 2
    values = []
    for one, other in zip(reference.astype(np.float64), given.astype(np.float64), strict=True):
        mean_1, mean_2 = _blur(one), _blur(other)
        var_1, var_2 = _blur(one * one) - mean_1**2, _blur(other * other) - mean_2**2
        both = _blur(one * other) - mean_1 * mean_2
        top = (2 * mean_1 * mean_2 + c1) * (2 * both + c2)
        values.append(float((top / ((mean_1**2 + mean_2**2 + c1) * (var_1 + var_2 + c2))).mean()))
    return float(np.mean(values))


def sqnr_db(reference: Outputs, given: Outputs) -> float:
    """Signal to quantisation noise ratio of the worst output, dB; -inf when something is not finite. At most 200."""
    worst = 200.0
    for name, wanted in reference.items():
        signal = float(np.square(wanted.astype(np.float64)).sum())
        noise = float(np.square(wanted.astype(np.float64) - given[name]).sum())
        if not np.isfinite(noise):
            return float("-inf")
        worst = min(worst, 10 * np.log10(max(signal, 1e-30) / max(noise, 1e-30)))
    return float(worst)


def compare_embeddings(reference: Sequence[Outputs], given: Sequence[Outputs]) -> Fidelity:
    """Cosine of every output of every input."""
    return _compared("cosine", cosine, reference, given)


def compare_pictures(reference: Sequence[Outputs], given: Sequence[Outputs]) -> Fidelity:
    """Structural similarity of every output of every input; outputs are (1, C, H, W)."""
    return _compared("ssim", lambda one, other: ssim(one[0], other[0]), reference, given)


def _compared(measure: str, function: Any, reference: Sequence[Outputs], given: Sequence[Outputs]) -> Fidelity:
    values = []
    for wanted, outputs in zip(reference, given, strict=True):
        problem = output_problem(outputs)
        if problem:
            return Fidelity(measure, float("nan"), float("nan"), problem)
        values += [function(wanted[name], outputs[name]) for name in wanted]
    return Fidelity(measure, min(values), float(np.mean(values)))


def _blur(values: Array) -> Array:
    return np.asarray(cv2.GaussianBlur(values, _SSIM_WINDOW, _SSIM_SIGMA, borderType=cv2.BORDER_REFLECT_101))
