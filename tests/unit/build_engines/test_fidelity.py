"""How close outputs are."""

from __future__ import annotations

import numpy as np
import pytest

from build_engines.fidelity import (
    compare_embeddings,
    compare_pictures,
    cosine,
    output_problem,
    psnr_db,
    sqnr_db,
    ssim,
)

RANDOM = np.random.default_rng(0)
PICTURE = RANDOM.random((1, 3, 32, 32)).astype(np.float32)
SMOOTH = np.linspace(0, 1, 3 * 32 * 32, dtype=np.float32).reshape(1, 3, 32, 32)


def test_equal_is_perfect() -> None:
    assert cosine(PICTURE, PICTURE) == pytest.approx(1)
    assert ssim(PICTURE[0], PICTURE[0]) == pytest.approx(1)
    assert psnr_db(PICTURE, PICTURE) == sqnr_db({"a": PICTURE}, {"a": PICTURE}) == 200


def test_noise_is_measured_in_decibels() -> None:
    noisy = SMOOTH + RANDOM.normal(0, 0.01, SMOOTH.shape)
    assert psnr_db(SMOOTH, noisy) == pytest.approx(40, abs=0.3)
    signal = float((SMOOTH.astype(np.float64) ** 2).mean())
    assert sqnr_db({"a": SMOOTH}, {"a": noisy}) == pytest.approx(10 * np.log10(signal / 1e-4), abs=0.3)
    assert ssim(SMOOTH[0], noisy[0].astype(np.float32)) < 0.99


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (np.array([1.0, np.nan]), "not finite"),
        (np.array([1.0, np.inf]), "not finite"),
        (np.full((2, 2), 3.0), "out is 3 everywhere"),
        (np.array([1.0, 2.0]), ""),
        (np.array([1.0]), ""),
    ],
)
def test_useless_outputs(values: np.ndarray, problem: str) -> None:
    said = output_problem({"out": values})
    assert problem in said
    assert bool(said) == bool(problem)


def test_over_many_inputs_the_worst_counts() -> None:
    reference = [{"out": PICTURE}, {"out": PICTURE}]
    found = compare_embeddings(reference, [{"out": PICTURE}, {"out": -PICTURE}])
    assert (found.worst, found.mean) == (pytest.approx(-1), pytest.approx(0, abs=1e-6))
    assert compare_pictures(reference, [{"out": PICTURE}, {"out": np.zeros_like(PICTURE)}]).problem
    assert sqnr_db({"a": PICTURE}, {"a": PICTURE * np.nan}) == -np.inf
