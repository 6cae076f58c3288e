"""Range files: what was saved is loaded, and nothing else is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration.face_set import FaceSet, SetPicture
from calibration.histogram import Histogram
from calibration.observers import METHODS, TensorHistograms, amax
from calibration.ranges import Ranges, _digest, load, save
from edge.errors import ConfigError, InputError, StorageError

MODEL, OTHER = "a" * 64, "b" * 64


@pytest.fixture(scope="module")
def histograms() -> TensorHistograms:
    random = np.random.default_rng(0)
    tensors = {}
    for name, values in {"relu": np.maximum(random.standard_normal(9999), 0), "dead": np.zeros(7)}.items():
        tensors[name] = Histogram()
        tensors[name].add(values.astype(np.float32))
    return TensorHistograms(tensors, inputs=5)


@pytest.fixture(scope="module")
def ranges(histograms: TensorHistograms) -> Ranges:
    pictures = tuple(SetPicture(Path(f"{n}.jpg"), f"{n:064}", 64, 48, bytes(32)) for n in range(2))
    return Ranges.of(histograms, FaceSet(pictures, "default"), "YuNet-n", MODEL)


@pytest.fixture
def saved(ranges: Ranges, tmp_path: Path) -> Path:
    path = tmp_path / "deep" / "yunet.ranges.json"
    save(ranges, path)
    return path


def test_what_was_saved_is_loaded(ranges: Ranges, histograms: TensorHistograms, saved: Path) -> None:
    loaded = load(saved, MODEL, ["relu"])
    assert loaded == ranges
    assert loaded.sha256 == ranges.sha256 == json.loads(saved.read_text())["sha256"]
    assert (loaded.pictures, loaded.inputs, loaded.set_kind) == (2, 5, "default")
    for method in METHODS:
        assert loaded.amax(method) == amax(histograms, method)
    again = loaded.histograms()
    assert amax(again, "percentile", 90) == amax(histograms, "percentile", 90)
    assert again.dead() == ("dead",)
    assert [entry.name for entry in saved.parent.iterdir()] == [saved.name]


def test_a_large_network_is_a_small_file(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    histogram = Histogram()
    histogram.add(random.laplace(size=300_000))
    ranges = Ranges.of(TensorHistograms({"one": histogram}, 1), FaceSet((picture(),), "folder"), "large", MODEL)
    tensors = {f"tensor_{n}": ranges.tensors["one"] for n in range(120)}
    save(ranges.model_copy(update={"tensors": tensors}), tmp_path / "large.json")
    assert (tmp_path / "large.json").stat().st_size < 1_000_000


def picture() -> SetPicture:
    return SetPicture(Path("a.jpg"), "c" * 64, 64, 48, bytes(32))


def with_hash(change: Callable[[dict[str, Any]], None]) -> Callable[[bytes], bytes]:
    """An edit by somebody who knows how to write the hash."""

    def edit(data: bytes) -> bytes:
        body = json.loads(data)
        del body["sha256"]
        change(body)
        return json.dumps({**body, "sha256": _digest(body)}).encode()

    return edit


def flip(data: bytes) -> bytes:
    at = data.index(b'"minmax"') + 10
    at += data[at:].index(b".") + 1
    return data[:at] + (b"1" if data[at : at + 1] != b"1" else b"2") + data[at + 1 :]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda data: b"", "cut short, or not a range file"),
        (lambda data: data[:-200], "cut short, or not a range file"),
        (lambda data: b"\xff\xfe\x00", "cut short, or not a range file"),
        (lambda data: b"[1, 2]", "not a range file"),
        (lambda data: b'{"a": 1}', "not a range file"),
        (flip, "changed or damaged"),
        (lambda data: data.replace(b'"schema_version": 1', b'"schema_version": 2'), "schema 2, .* reads up to 1"),
        (with_hash(lambda body: body.update(extra=1)), "extra"),
        (with_hash(lambda body: body.pop("pictures")), "pictures: Field required"),
        (with_hash(lambda body: body["tensors"]["relu"]["amax"].update(mse=-1.0)), "relu .* not positive"),
        (with_hash(lambda body: body["tensors"]["relu"]["amax"].pop("mse")), "relu lacks a method"),
        (with_hash(lambda body: body["tensors"]["relu"].update(maximum=1e999)), "Infinity"),
        (lambda data: data.replace(b'"minimum": 0.0', b'"minimum": NaN', 1), "holds NaN"),
    ],
)
def test_anything_else_is_refused(saved: Path, edit: Callable[[bytes], bytes], says: str) -> None:
    changed = edit(saved.read_bytes())
    assert changed != saved.read_bytes()
    saved.write_bytes(changed)
    with pytest.raises(ConfigError, match=says) as caught:
        load(saved, MODEL)
    assert str(saved) in caught.value.message
    assert "edge-build --int8 without --ranges" in caught.value.remedy
    assert caught.value.exit_code == 78


def test_numbers_beyond_floats_are_refused(saved: Path) -> None:
    saved.write_text(saved.read_text().replace('"minimum": 0.0', '"minimum": 1e999', 1))
    with pytest.raises(ConfigError, match=r"changed or damaged|finite"):
        load(saved, MODEL)


def test_ranges_of_another_model(saved: Path) -> None:
    with pytest.raises(ConfigError, match=r"made for YuNet-n .*not for the model with sha256 bbbbbbbbbbbb"):
        load(saved, OTHER)


def test_missing_tensors_are_named(saved: Path) -> None:
    with pytest.raises(ConfigError, match=r"lacks 4 of 5 tensors \(a, b, c …\)"):
        load(saved, MODEL, ["a", "b", "relu", "c", "d"])


def test_damaged_counts_are_refused(ranges: Ranges) -> None:
    tensor = ranges.tensors["relu"]
    for counts in ("", "AAAA", "not base64", ranges.tensors["dead"].counts):
        tensors = {"relu": tensor.model_copy(update={"counts": counts})}
        with pytest.raises(ConfigError, match="ranges of YuNet-n: "):
            ranges.model_copy(update={"tensors": tensors}).histograms()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load(tmp_path / "none.json", MODEL)
    with pytest.raises(InputError, match="Is a directory"):
        load(tmp_path, MODEL)


def test_a_new_file_replaces_the_old_in_one_step(ranges: Ranges, saved: Path) -> None:
    save(ranges.model_copy(update={"model": "newer"}), saved)
    assert load(saved, MODEL).model == "newer"


def test_a_place_that_cannot_be_written(ranges: Ranges, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        save(ranges, tmp_path / "file" / "ranges.json")
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(StorageError):
            save(ranges, tmp_path / "ranges.json")
        tmp_path.chmod(0o700)
