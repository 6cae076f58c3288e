"""Which model is taken, and what is said about it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import edge.models.choose as choosing
from edge.errors import InputError, StorageError, UnavailableError
from edge.models.choose import choose, identify
from edge.models.description import ModelDescription, descriptions
from edge.models.store import ModelStore
from tests.unit.models.published import NAMES, model_file


class Network:
    """Stands for the network: gives the files in `here`, counts what is asked for."""

    def __init__(self, here: dict[str, Path]) -> None:
        self.here = here
        self.asked: list[str] = []

    def fetch(self, model: ModelDescription, store: ModelStore, *rest: object) -> Path:
        self.asked.append(model.name)
        if model.name not in self.here:
            raise UnavailableError(f"{model.name} could not be fetched (no network)", "place the file by hand: there")
        store.target.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(self.here[model.name], store.place(model)))


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch, shared_data: Path) -> Network:
    """Every file can be fetched; the test takes away what it wants to be missing."""
    network = Network({name: model_file(shared_data, name) for name in NAMES})
    monkeypatch.setattr(choosing, "fetch", network.fetch)
    return network


def test_auto_prefers_yunet_and_fetches_it_once(network: Network, tmp_path: Path) -> None:
    first, second = choose("auto", tmp_path), choose("auto", tmp_path)
    assert first.description.name == second.description.name == "yunet_n"
    assert first.reason == ""
    assert network.asked == ["yunet_n"]


def test_auto_falls_back_says_why_and_remembers(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yunet = network.here.pop("yunet_n")
    chosen = choose("auto", tmp_path)
    assert chosen.description.name == "centerface"
    assert chosen.reason == "yunet_n could not be fetched (no network); took centerface"
    again = choose("auto", tmp_path)
    assert "edge-models fetch yunet_n tries again; took centerface" in again.reason
    assert network.asked.count("yunet_n") == 1
    network.here["yunet_n"] = yunet                     # the network is back, and a day has passed
    later_s = time.time() + 25 * 3600
    monkeypatch.setattr(time, "time", lambda: later_s)
    assert choose("auto", tmp_path).description.name == "yunet_n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["centerface.onnx", "yunet_n.onnx"]


def test_a_file_placed_by_hand_ends_the_fallback(network: Network, tmp_path: Path) -> None:
    yunet = network.here.pop("yunet_n")
    assert choose("auto", tmp_path).description.name == "centerface"
    shutil.copy(yunet, tmp_path / "yunet_n.onnx")
    assert choose("auto", tmp_path).description.name == "yunet_n"


def test_nothing_to_be_had(network: Network, tmp_path: Path) -> None:
    network.here.clear()
    with pytest.raises(UnavailableError, match=r"yunet_n could.*centerface could.*by hand") as caught:
        choose("auto", tmp_path)
    assert caught.value.exit_code == 69
    with pytest.raises(UnavailableError, match="by hand"):
        choose("auto", tmp_path)


def test_a_store_that_cannot_be_written_is_not_taken_for_a_lack_of_network(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(model: ModelDescription, store: ModelStore, *rest: object) -> Path:
        raise StorageError(f"{store.place(model)}: No space left on device")

    monkeypatch.setattr(choosing, "fetch", full)
    with pytest.raises(StorageError, match="No space left"):
        choose("auto", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_memory_of_a_failure_is_ignored(network: Network, tmp_path: Path) -> None:
    (tmp_path / "yunet_n.failed.json").write_text("{")
    assert choose("auto", tmp_path).description.name == "yunet_n"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "centerface"])
def test_a_path_is_recognised_by_its_hash(shared_data: Path, name: str) -> None:
    found = choose(str(model_file(shared_data, name)))
    assert found.description.name == name
    assert "by its graph" not in found.reason
    assert ("non-commercial" in found.reason) == (name == "scrfd_500m")


def resaved(source: Path, target: Path, rename: bool = False, without: str = "") -> Path:
    """A copy with another hash; outputs renamed to numbers, or without those that start with `without`."""
    model = onnx.load(source)
    model.doc_string = "saved again"
    if without:
        for value in [value for value in model.graph.output if value.name.startswith(without)]:
            model.graph.output.remove(value)
    if rename:
        names = {value.name: f"output_{place}" for place, value in enumerate(model.graph.output)}
        for node in model.graph.node:
            node.output[:] = [names.get(name, name) for name in node.output]
        for value in model.graph.output:
            value.name = names[value.name]
    onnx.save(model, target)
    return target


@pytest.mark.parametrize(
    ("name", "rename", "without"),
    [
        *[(name, False, "") for name in NAMES],
        ("scrfd_500m", True, ""),
        ("scrfd_500m", False, "kps"),
        ("yunet_n", True, ""),
    ],
)
def test_a_path_is_recognised_by_its_graph(
    shared_data: Path, tmp_path: Path, name: str, rename: bool, without: str
) -> None:
    path = resaved(model_file(shared_data, name), tmp_path / "mine.onnx", rename, without)
    found = choose(str(path))
    assert found.description.name == name
    assert found.reason.startswith("recognised as")
    assert found.description.licence.weights == "not known"
    assert bool(found.description.landmarks) == (without == "")


def test_an_unknown_graph_is_refused_with_what_was_expected(shared_data: Path) -> None:
    with pytest.raises(UnavailableError, match=r"scores \(1, 4420, 2\), boxes.*YuNet-n: cls_8") as caught:
        identify(shared_data / "models/detectors/ultraface_slim-320.onnx")
    assert caught.value.exit_code == 69


@pytest.mark.parametrize("damage", ["garbage", "truncated", "empty", "external"])
def test_a_file_that_is_no_whole_model(shared_data: Path, tmp_path: Path, damage: str) -> None:
    whole = model_file(shared_data, "yunet_n").read_bytes()
    path = tmp_path / "model.onnx"
    contents = {"garbage": b"\x89PNG" * 999, "truncated": whole[: len(whole) // 2]}
    path.write_bytes(contents.get(damage, b""))
    if damage == "external":
        onnx.save_model(onnx.load_from_string(whole), path, save_as_external_data=True, size_threshold=0)
    with pytest.raises(UnavailableError, match=r"model\.onnx"):
        identify(path)


def test_two_inputs_are_no_detector(tmp_path: Path) -> None:
    names = [name for head in descriptions()["yunet_n"].heads for name in descriptions()["yunet_n"].output_names(head)]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 8]) for name in "ab"]
    nodes = [helper.make_node("Add", ["a", "b"], [name]) for name in names]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", inputs, outputs)), tmp_path / "two.onnx")
    with pytest.raises(UnavailableError, match="not a face detector"):
        identify(tmp_path / "two.onnx")


@pytest.mark.parametrize("path", ["/nowhere/model.onnx", "/", "no-such-name"])
def test_a_path_that_cannot_be_read(path: str) -> None:
    with pytest.raises(InputError, match="auto, centerface") as caught:
        choose(path)
    assert caught.value.exit_code == 66


def test_the_store_is_the_users_cache_unless_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tmp_path / "edge" / "models" in ModelStore.default().directories
    assert ModelStore.default(tmp_path / "own").directories == (tmp_path / "own",)
