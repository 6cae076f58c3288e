"""Secrets are looked up strictly, shown nowhere, and found again in the texts of others."""

from __future__ import annotations

import base64
import copy
import dataclasses
import html
import json
import os
import pickle
import time
import urllib.parse
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.cameras import SecretRef
from edge.errors import ConfigError
from edge.secrets import HIDDEN, MAX_BYTES, Redactor, Secret, resolve

VALUE = "s3cret/of a:camera"


@dataclasses.dataclass
class Holder:
    secret: Secret


@pytest.mark.parametrize(
    "show",
    [repr, str, "{}".format, "{!r:>30}".format, lambda s: f"{s}", "%s".__mod__, lambda s: repr(Holder(s)),
     lambda s: str(dataclasses.asdict(Holder(s))), lambda s: repr([s, {"a": s}]), lambda s: repr(vars(Holder(s)))],
)  # fmt: skip
def test_a_secret_is_not_shown(show: object) -> None:
    text = show(Secret(VALUE))  # type: ignore[operator]
    assert HIDDEN in text
    assert VALUE not in text


@pytest.mark.parametrize("write", [pickle.dumps, json.dumps, lambda s: pickle.dumps(Holder(s), 5)])
def test_a_secret_does_not_leave_its_process(write: object) -> None:
    with pytest.raises(TypeError) as caught:
        write(Secret(VALUE))  # type: ignore[operator]
    assert VALUE not in str(caught.value)


def test_a_copy_is_the_secret_itself_and_equal_ones_are_equal() -> None:
    secret = Secret(VALUE)
    assert copy.deepcopy(secret) is secret
    assert copy.copy(secret) is secret
    assert secret == Secret(VALUE)
    assert secret != Secret("other")
    assert secret != VALUE
    with pytest.raises(TypeError):
        hash(secret)


def test_each_place_gives_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "door"
    file.write_text(VALUE + "\n")
    file.chmod(0o600)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("DOOR_PASSWORD", VALUE)
    places = (SecretRef("credential", "door"), SecretRef("file", str(file)), SecretRef("environment", "DOOR_PASSWORD"))
    assert [resolve(place).reveal() for place in places] == [VALUE] * 3


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"a b\n", "a b"), (b"a\r\n", "a"), (b" a ", " a "), ("gr\u00fc\u00df".encode(), "gr\u00fc\u00df"),
     (b"x" * MAX_BYTES + b"\n", "x" * MAX_BYTES)],
)  # fmt: skip
def test_one_line_end_is_taken_off(content: bytes, expected: str, tmp_path: Path) -> None:
    assert resolve(written(tmp_path, content)).reveal() == expected


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"), (b"\n", "is empty"), (b"hunter2\n\n", "line end"), (b"hunter2\nx", "line end"),
        (b"hunter\x002", "control"), (b"hunter2\x1b[0m", "control"), (b"hunter2\xff", "not UTF-8"),
        (b"hunter2" * 200, "longer than"), ("hunter2\u2028".encode(), "line end"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_password_is_refused(content: bytes, what: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        resolve(written(tmp_path, content))
    assert "hunter" not in str(caught.value)
    assert caught.value.exit_code == 78
    assert caught.value.__cause__ is None


def written(folder: Path, content: bytes, mode: int = 0o600) -> SecretRef:
    file = folder / "secret"
    file.write_bytes(content)
    file.chmod(mode)
    return SecretRef("file", str(file))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o610])
def test_a_file_that_others_may_touch_is_refused(mode: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="chmod 600"):
        resolve(written(tmp_path, b"hunter2", mode))


def test_links_folders_pipes_and_missing_files_are_refused_at_once(tmp_path: Path) -> None:
    written(tmp_path, b"hunter2")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe", 0o600)
    began_s = time.monotonic()
    for name, what in (("link", "is a link"), ("pipe", "not a file"), (".", "not a file"), ("none", "No such file")):
        with pytest.raises(ConfigError, match=what):
            resolve(SecretRef("file", str(tmp_path / name)))
    assert time.monotonic() - began_s < 10


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    reference = written(tmp_path, b"hunter2")
    os.chown(tmp_path / "secret", 1234, 1234)
    with pytest.raises(ConfigError, match="belongs to another user"):
        resolve(reference)


def test_a_credential_needs_systemd_and_a_plain_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(ConfigError, match="LoadCredential=door:PATH"):
        resolve(SecretRef("credential", "door"))
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "inner"))
    (tmp_path / "outside").write_text("hunter2")
    for name in ("../outside", "..", "", "a/b"):
        with pytest.raises(ConfigError, match="not a file name"):
            resolve(SecretRef("credential", name))
    with pytest.raises(ConfigError, match="is not set"):
        resolve(SecretRef("environment", "NO_SUCH_VARIABLE_HERE"))


NASTY = st.text(
    st.one_of(st.sampled_from("\\\"'`$%&+/=:@?#<>;, *{}[]()|^~!\u00e4\u20ac\U0001f512"),
              st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"))),
    min_size=4, max_size=24,
)  # fmt: skip
BESIDE = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=12)


def spellings(value: str, before: str, after: str) -> dict[str, str]:
    """The ways in which libraries put a password into their messages."""
    quote = urllib.parse.quote
    pair = f"{before}:{value}{after}".encode()
    return {
        "plain": value,
        "percent": quote(value, safe=""),
        "lower": "".join(f"%{byte:02x}" for byte in value.encode()),
        "some": quote(value, safe="!$&'()*+,;=:@/?"),
        "twice": quote(quote(value, safe=""), safe=""),
        "form": urllib.parse.quote_plus(value),
        "json": json.dumps(value),
        "utf-8 json": json.dumps(value, ensure_ascii=False),
        "json twice": json.dumps(json.dumps({"password": value})),
        "python": ascii(value),
        "markup": html.escape(value),
        "basic": "Basic " + base64.b64encode(pair).decode(),
        "urlsafe": base64.urlsafe_b64encode(pair).decode(),
    }


@given(value=NASTY, before=BESIDE, after=BESIDE)
@settings(max_examples=60, deadline=None)
def test_no_spelling_of_a_secret_survives(value: str, before: str, after: str) -> None:
    clean = Redactor([Secret(value)])
    for name, spelling in spellings(value, before, after).items():
        text = f"{before} rtsp://user:{spelling}@host/{after} "
        cleaned = clean(text)
        assert HIDDEN in cleaned, name
        if value not in HIDDEN + before + after + " rtsp://user:@host/":
            assert spelling not in cleaned, name
        assert value not in cleaned, name


@given(value=NASTY)
@settings(max_examples=50, deadline=None)
def test_other_text_stays(value: str) -> None:
    text = "0:00:01 rtspsrc0: Could not open resource for reading, 10.0.0.7 port 554, stream_3"
    if value not in text:
        assert Redactor([Secret(value)])(text) == text


@pytest.mark.parametrize(
    ("secret", "text", "expected"),
    [
        ("a", "a camera at rtsp://a:a@cam/a", "*** camera at rtsp://***:***@cam/***"),
        ("12", "port 554, 1200 frames, code 12", "port 554, 1200 frames, code ***"),
        ("", "nothing", "nothing"),
        ("**", "a ** b", "a *** b"),
        ("x***", "xx***", "***"),
    ],
)  # fmt: skip
def test_short_and_odd_secrets(secret: str, text: str, expected: str) -> None:
    assert Redactor([Secret(secret)])(text) == expected


def test_one_secret_may_be_part_of_another() -> None:
    assert Redactor([Secret("door"), Secret("doorstep7")])("doorstep7 door") == "*** ***"
    assert Redactor([])("door") == "door"


@pytest.mark.parametrize("value", ["\\" * 60, "%25" * 40, "+" * 60, "&amp;" * 20, "a" * 200, "\\\"" * 40, "AAAA" * 20])
def test_a_hostile_text_does_not_make_it_slow(value: str) -> None:
    clean = Redactor([Secret(value + "x")])
    text = "".join(spellings(value, "", "").values())
    began_s = time.perf_counter()
    clean((text * (100_000 // len(text)))[:100_000])
    assert time.perf_counter() - began_s < 20
