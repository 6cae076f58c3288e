"""The cache of prepared graphs."""

from __future__ import annotations

from pathlib import Path

import pytest

import edge.inference.prepare as preparing
from edge.errors import UnavailableError
from edge.inference.prepare import build_graph, cache_directory, prepared_graph
from edge.models.description import ModelDescription, description
from tests.unit.models.published import model_file


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """An empty cache; the list grows with every graph that is built. Building is cut short: the cache is under test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    built: list[str] = []

    def counted(content: bytes, model: ModelDescription) -> bytes:
        built.append(model.name)
        return content + model.model_dump_json().encode()

    monkeypatch.setattr(preparing, "build_graph", counted)
    return built


def test_a_graph_is_built_once(shared_data: Path, builds: list[str]) -> None:
    model, path = description("yunet_n"), model_file(shared_data, "yunet_n")
    first, second = prepared_graph(path, model), prepared_graph(path, model)
    assert first == second
    assert builds == ["yunet_n"]
    assert len(list(cache_directory().iterdir())) == 1


@pytest.mark.parametrize("damage", [b"", b"garbage", b"short"])
def test_a_damaged_entry_is_built_again(shared_data: Path, builds: list[str], damage: bytes) -> None:
    model, path = description("yunet_n"), model_file(shared_data, "yunet_n")
    whole = prepared_graph(path, model)
    (entry,) = cache_directory().iterdir()
    entry.write_bytes(entry.read_bytes()[:-100] if damage == b"short" else damage)
    assert prepared_graph(path, model) == whole
    assert len(builds) == 2
    assert prepared_graph(path, model) == whole         # and mended
    assert len(builds) == 2


def test_another_description_is_another_entry(shared_data: Path, builds: list[str]) -> None:
    path, model = model_file(shared_data, "yunet_n"), description("yunet_n")
    prepared_graph(path, model)
    swapped = model.model_copy(update={"input": model.input.model_copy(update={"colour": "rgb"})})
    assert prepared_graph(path, swapped) != prepared_graph(path, model)
    assert len(builds) == 2


def test_a_cache_that_cannot_be_written_does_no_harm(
    shared_data: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert prepared_graph(model_file(shared_data, "yunet_n"), description("yunet_n"))


def test_a_graph_that_is_not_what_is_described(shared_data: Path) -> None:
    with pytest.raises(UnavailableError, match=r"CenterFace cannot be prepared.*edge-models check"):
        build_graph(model_file(shared_data, "yunet_n").read_bytes(), description("centerface"))


def test_a_file_that_is_gone(builds: list[str]) -> None:
    with pytest.raises(UnavailableError, match="No such file"):
        prepared_graph(Path("/nowhere/model.onnx"), description("yunet_n"))
