"""The runtime on a real GPU: batches, threads, sizes, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edge.errors import DetectorError, UnavailableError
from edge.inference.tensorrt import TensorRtRuntime
from tests.gpu.compare import inputs_of, onnx_outputs, relative_error
from tests.gpu.conftest import GRAPHS

Pictures = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    return inputs_of("yunet_n")["picture"]


@pytest.fixture(scope="module")
def expected(pictures: Pictures) -> dict[str, npt.NDArray[Any]]:
    return onnx_outputs(GRAPHS / "yunet_n.onnx", {"picture": pictures})


@pytest.fixture
def runtime(plan: Callable[..., Path]) -> Iterator[TensorRtRuntime]:
    opened = TensorRtRuntime([plan("yunet_n").read_bytes()], "YuNet-n", "fp16")
    yield opened
    opened.close()


def test_every_batch_up_to_the_largest(
    runtime: TensorRtRuntime, pictures: Pictures, expected: dict[str, npt.NDArray[Any]]
) -> None:
    for batch in (1, 8, 3, 2, 1, 7, 8, 5):      # also back and forth between the profiles
        got = runtime.run(pictures[:batch])
        assert relative_error(got, {name: values[:batch] for name, values in expected.items()}) < 1e-2


def test_the_same_picture_gives_the_same_numbers(runtime: TensorRtRuntime, pictures: Pictures) -> None:
    first, again = runtime.run(pictures[:1]), runtime.run(pictures[:1])
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])


def test_results_belong_to_the_caller(runtime: TensorRtRuntime, pictures: Pictures) -> None:
    first = runtime.run(pictures[:1])
    kept = {name: values.copy() for name, values in first.items()}
    runtime.run(pictures[1:2])
    for name in first:
        np.testing.assert_array_equal(first[name], kept[name])
        assert first[name].dtype == np.float32
        assert first[name].flags.writeable


@pytest.mark.parametrize("threads", [1, 2, 5, 16])
def test_callers_of_many_threads_each_get_their_own(
    runtime: TensorRtRuntime, pictures: Pictures, expected: dict[str, npt.NDArray[Any]], threads: int
) -> None:
    def check(number: int) -> float:
        got = runtime.run(pictures[number % 8 : number % 8 + 1])
        return relative_error(got, {name: values[number % 8 : number % 8 + 1] for name, values in expected.items()})

    with ThreadPoolExecutor(threads) as executor:
        assert max(executor.map(check, range(160))) < 1e-2


def test_two_sizes_in_one_runtime(
    plan: Callable[..., Path], pictures: Pictures, expected: dict[str, npt.NDArray[Any]]
) -> None:
    small = inputs_of("yunet_n_small")["picture"]
    small_expected = onnx_outputs(GRAPHS / "yunet_n_small.onnx", {"picture": small})
    payloads = [plan("yunet_n").read_bytes(), plan("yunet_n_small").read_bytes()]
    runtime = TensorRtRuntime(payloads, "YuNet-n")
    assert runtime.sizes == {pictures.shape[1:3], small.shape[1:3]}

    def check(number: int) -> float:
        inputs, wanted = ((pictures, expected), (small, small_expected))[number % 2]
        at = number // 2 % 8
        return relative_error(runtime.run(inputs[at : at + 1]), {n: v[at : at + 1] for n, v in wanted.items()})

    with ThreadPoolExecutor(6) as executor:
        assert max(executor.map(check, range(120))) < 1e-2
    runtime.close()


@pytest.mark.parametrize(
    ("shape", "said"),
    [((1, 64, 64, 3), "no engine for inputs of 64x64x3"), ((9, 384, 640, 3), "batches of up to 8, not 9")],
)
def test_what_it_has_no_engine_for(runtime: TensorRtRuntime, shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(DetectorError, match=said):
        runtime.run(np.zeros(shape, np.uint8))


def test_a_wrong_type_is_an_error_and_the_next_run_works(
    runtime: TensorRtRuntime, pictures: Pictures, expected: dict[str, npt.NDArray[Any]]
) -> None:
    with pytest.raises(DetectorError):
        runtime.run(pictures[:1].astype(np.complex64))      # type: ignore[arg-type]
    got = runtime.run(pictures[:1])
    assert relative_error(got, {name: values[:1] for name, values in expected.items()}) < 1e-2


@pytest.mark.parametrize("cut", [0, 100, 10_000, -1])
def test_a_plan_that_is_cut_off_is_refused_and_the_process_lives(plan: Callable[..., Path], cut: int) -> None:
    """The store never hands out such a plan; TensorRT's own answer must still not be a crash."""
    payload = plan("yunet_n").read_bytes()[:cut] if cut >= 0 else b"\0" * 4096
    with pytest.raises(UnavailableError, match=r"TensorRT .* refuses the engine of YuNet-n \(.+\)"):
        TensorRtRuntime([payload], "YuNet-n")
    opened = TensorRtRuntime([plan("yunet_n").read_bytes()], "YuNet-n")
    opened.close()


def test_times_and_profile(runtime: TensorRtRuntime, pictures: Pictures) -> None:
    one, eight = (runtime.time({"picture": pictures[:batch]}, 50) for batch in (1, 8))
    assert len(one) == len(eight) == 50
    assert 0 < np.median(one) < np.median(eight) * 1.5
    layers = runtime.profile({"picture": pictures[:1]}, 10)
    assert len(layers) > 10
    assert all(milliseconds >= 0 for milliseconds in layers.values())
    assert 0.3 * np.median(one) < sum(layers.values()) < 10 * np.median(one)
    described = [layer.get("Name", "") for layer in runtime.layers()]
    assert len(set(layers) & set(described)) > len(layers) // 2
