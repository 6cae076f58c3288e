"""Passwords: found when they are needed, never shown, and taken out of texts that others wrote (P8)."""

from __future__ import annotations

import base64
import errno
import hmac
import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from edge.cameras import SecretRef
from edge.errors import ConfigError

MAX_BYTES = 1024
HIDDEN = "***"
SHORTEST_ANYWHERE = 4       # a shorter secret is taken out only where it stands by itself


class Secret:
    """A text that no message, log, pickle or JSON shows. `reveal` is the only way to it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The text itself, for whoever hands it to the camera."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(
            self._value.encode(), other._value.encode()
        )

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret is not pickled; it stays in the process that looked it up")


def resolve(reference: SecretRef) -> Secret:
    """Look a secret up, now. Raises ConfigError, which names the place and never the value.

    One line end at its end does not belong to it.
    """
    if reference.kind == "environment":
        value = os.environb.get(os.fsencode(reference.name))
        if value is None:
            raise ConfigError(f"environment variable {reference.name} is not set", "set it for the service")
        return _secret(value, f"environment variable {reference.name}")
    if reference.kind == "file":
        path = Path(reference.name)
        return _secret(_read(path, only_ours=True), str(path))
    if reference.name in ("", ".", "..") or "/" in reference.name:
        raise ConfigError("the name of a credential is not a file name", "name it as in LoadCredential=NAME:PATH")
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    if not directory:
        raise ConfigError(
            f"credential {reference.name}: this program was started without credentials",
            f"start it as a service with LoadCredential={reference.name}:PATH",
        )
    # systemd made this directory for the service alone; mode bits there may show the mask of an access list.
    return _secret(_read(Path(directory) / reference.name, only_ours=False), f"credential {reference.name}")


def _read(path: Path, only_ours: bool) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise ConfigError(f"{path}: is not a file", "name a file that holds the secret and nothing else")
            if only_ours and facts.st_uid not in (0, os.geteuid()):
                raise ConfigError(f"{path}: belongs to another user", "give it to the user that the service runs as")
            if only_ours and facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ConfigError(f"{path}: other users may read it", f"run: chmod 600 {path}")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(MAX_BYTES + 3)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConfigError(f"{path}: is a link", "name the file that it leads to") from None
        remedy = {errno.ENOENT: "create it with mode 0600, or add it to LoadCredential= of the service",
                  errno.EACCES: "give it to the user that the service runs as"}
        reason = os.strerror(error.errno) if error.errno else "cannot be read"
        raise ConfigError(f"{path}: {reason}", remedy.get(error.errno or 0, "check the disk")) from None


def _secret(content: bytes, where: str) -> Secret:
    content = content[:-2] if content.endswith(b"\r\n") else content.removesuffix(b"\n")
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{where}: is longer than {MAX_BYTES} bytes", "it must hold the secret and nothing else")
    if not content:
        raise ConfigError(f"{where}: is empty", "write the secret into it")
    try:
        value = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: is not UTF-8", "save it as UTF-8 text") from None
    if re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", value):
        raise ConfigError(f"{where}: holds a line end or control character", "it must be one line of text")
    return Secret(value)


class Redactor:
    """Takes secrets out of texts: as they are, percent-encoded in whole or in part (also twice), with the escapes of
    JSON, Python, GLib, GStreamer and XML, and inside Base64, as in ``Authorization: Basic``.

    A secret of fewer than `SHORTEST_ANYWHERE` characters is taken out only where no letter or digit is beside it:
    elsewhere the holes would show what it is, and little would be left of the text.
    """

    def __init__(self, secrets: Iterable[Secret]) -> None:
        values = {secret.reveal() for secret in secrets} - {""}
        patterns = [pattern for value in values for pattern in _patterns(value)]
        longest_first = sorted(dict.fromkeys(patterns), key=len, reverse=True)
        self._pattern = re.compile("|".join(longest_first)) if patterns else None

    def __call__(self, text: str) -> str:
        """`text` with `HIDDEN` in place of each secret."""
        if self._pattern is None:
            return text
        for _ in range(8):      # what stands to the left and right of a hole may be a secret again
            cleaned = self._pattern.sub(HIDDEN, text)
            if cleaned == text:
                break
            text = cleaned
        return text


def _patterns(value: str) -> list[str]:
    """Each matches a text in one way only, so that a hostile text cannot make the search slow."""
    forms = {value, *(escape(value) for escape in _ESCAPES)}
    forms |= {escape(form) for form in forms for escape in (_json, _json_ascii)}
    plain = ["".join(map(_percent, form)) for form in forms]
    if len(value) < SHORTEST_ANYWHERE:
        return [rf"(?<![\w*]){pattern}(?![\w*])" for pattern in plain]
    return [*plain, *_base64(value.encode())]


def _percent(character: str) -> str:
    """The character, or what it is in an address: ``%2F``, ``%2f``, encoded again ``%252F``; a space also ``+``."""
    encoded = "".join(rf"%(?:25)*{_hex(byte)}" for byte in character.encode())
    return f"(?:{re.escape(character)}|{encoded}{'|[+]' if character == ' ' else ''})"


def _hex(byte: int) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{byte:02x}")


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _json_ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _python(text: str) -> str:
    return repr(f"'{text}")[2:-1]               # the quote makes Python choose double quotes where it can


def _python_single(text: str) -> str:
    return repr(f"{text}\"'")[1:-4]             # with both quotes in it, the single ones get a backslash


def _python_ascii(text: str) -> str:
    return ascii(f"'{text}")[2:-1]


def _python_ascii_single(text: str) -> str:
    return ascii(f"{text}\"'")[1:-4]


def _glib(text: str) -> str:
    """``g_strescape``: backslash and double quote with a backslash, bytes beyond ASCII in octal."""
    return "".join(rf"\{byte:03o}" if byte > 0x7E else f"\\{byte:c}" if byte in b'"\\' else chr(byte) for byte in
                   text.encode())  # fmt: skip


def _gstreamer(text: str) -> str:
    """How GStreamer writes strings of structures and properties (``gst_string_wrap``)."""
    return "".join(rf"\{byte:03o}" if byte > 0x7E else chr(byte) if re.match(r"[\w+/:.-]", chr(byte)) else f"\\{byte:c}"
                   for byte in text.encode())  # fmt: skip


def _xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _xml_quotes(text: str) -> str:
    return _xml(text).replace('"', "&quot;").replace("'", "&apos;")


def _html(text: str) -> str:
    return _xml(text).replace('"', "&quot;").replace("'", "&#x27;")


def _glib_markup(text: str) -> str:
    return _xml(text).replace('"', "&quot;").replace("'", "&#39;")


_ESCAPES = (
    _json, _json_ascii, _python, _python_single, _python_ascii, _python_ascii_single, _glib, _gstreamer, _xml,
    _xml_quotes, _html, _glib_markup,
)   # fmt: skip

_BASE64_SIGNS = {"+": r"(?:[+-]|%2[bB])", "/": r"(?:[/_]|%2[fF]|\\/)"}


def _base64(value: bytes) -> list[str]:
    """What Base64 makes of `value` wherever it begins in what is encoded. The characters at both ends that depend on
    what is beside it are taken along."""
    found = []
    for before in range(3):
        text = base64.b64encode(bytes(before) + value).decode()
        first, last = (before * 8 + 5) // 6, (before + len(value)) * 8 // 6
        core = "".join(_BASE64_SIGNS.get(each, each) for each in text[first:last])
        found.append(rf"[A-Za-z0-9+/_-]{{0,2}}{core}[A-Za-z0-9+/_=-]*")
    return found
