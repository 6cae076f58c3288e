"""configs/edge.yaml and docs/configuration.md name every key, and say of it what is true."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from edge.config import load_service
from edge.config.schema import CAMERA, SERVICE, SOURCE
from edge.video.custom import ALLOWED

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "configs" / "edge.yaml"
PAGE = ROOT / "docs" / "configuration.md"
EXAMPLES = sorted((ROOT / "configs" / "examples").glob("*.yaml"))


def names(values: object, above: str = "") -> set[str]:
    """Dotted keys of everything that is no mapping."""
    if not isinstance(values, dict) or not values:
        return {above}
    return set().union(*(names(value, f"{above}.{key}" if above else key) for key, value in values.items()))


def test_the_reference_has_every_key_and_no_other() -> None:
    values = yaml.safe_load(REFERENCE.read_text())
    assert {f"service.{key}" for key in SERVICE} == names(values["service"], "service")
    assert set(CAMERA) == names(values["defaults"])
    # the sources that are commented out, read as if they were not
    commented = REFERENCE.read_text().partition("\ncameras:\n")[2]
    cameras = yaml.safe_load(re.sub(r"^  # ?(?=  |\w+:)", "  ", commented, flags=re.MULTILINE))
    found = set().union(*(names(camera["source"], "source") for camera in cameras.values()))
    assert {key for key in found if key != "source.rtsp.password.credential"} | {"source.rtsp.password"} == set(SOURCE)


def test_the_reference_is_equal_to_the_defaults(tmp_path: Path) -> None:
    values = yaml.safe_load(REFERENCE.read_text())
    bare = tmp_path / "edge.yaml"
    bare.write_text(yaml.safe_dump({"cameras": values["cameras"]}))
    written, default = load_service(REFERENCE), load_service(bare)
    assert replace(written, config_sha256="") == replace(default, config_sha256="")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_right(example: Path) -> None:
    assert load_service(example).cameras


def test_the_page_has_a_row_for_every_key() -> None:
    rows = set(re.findall(r"^\| `([a-z0-9_.]+)` \|", PAGE.read_text(), re.MULTILINE))
    assert rows == {f"service.{key}" for key in SERVICE} | set(CAMERA) | set(SOURCE)


def test_defaults_on_the_page_are_those_of_the_reference() -> None:
    values = yaml.safe_load(REFERENCE.read_text())
    wrong = []
    for key, shown in re.findall(r"^\| `([a-z0-9_.]+)` \| `([^`|]*)` \|", PAGE.read_text(), re.MULTILINE):
        value = values if key.startswith("service.") else values["defaults"]
        if key.startswith("source."):
            continue
        for part in key.split("."):
            value = value[part]
        text = value if isinstance(value, str) else json.dumps(value)
        if text != shown:
            wrong.append((key, shown, text))
    assert wrong == []


def test_the_page_has_every_element_of_a_described_source() -> None:
    _, _, after = PAGE.read_text().partition("\nA described source is a chain")
    rows = after.partition("\n## ")[0].split("\n\n")[1]
    assert set(re.findall(r"`([a-z0-9]+)`", rows)) == set(ALLOWED)


@pytest.mark.parametrize("page", ["README.md", "docs/configuration.md", "docs/operations.md"])
def test_configurations_in_the_pages_are_read(page: str, tmp_path: Path) -> None:
    for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)):
        cameras = "" if "cameras:" in block else "cameras: {door: {source: {file: {path: /a.mp4}}}}\n"
        file = tmp_path / f"{number}.yaml"
        file.write_text(block + cameras)
        assert load_service(file).cameras
