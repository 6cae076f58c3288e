"""What one value may be: readers from a node to a Python value, each with the words for the reference table.

A reader raises `Wrong`. It quotes what it found only where that cannot be a secret.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.config.document import Items, Mapping, Node, Scalar, shown

Read = Callable[[Node], Any]

_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?")
# What YAML 1.1 programs take for something else than a text: truth values, nothing, numbers, times of day, dates.
_NOT_A_TEXT = re.compile(
    r"(?i)yes|no|on|off|y|n|true|false|null|~|0[0-9]+|[-+]?0x[0-9a-f]+|0o[0-7]+|0b[01]+|[-+]?\d+(:[0-5]?\d)+(\.\d*)?"
    r"|[-+]?[\d_]*\.?\d+e[-+]?\d+|[-+]?\.(inf|nan)|\d{4}-\d\d?-\d\d?"
)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_KILOBITS = {"k": 1, "M": 1000}


class Wrong(Exception):
    """A value that cannot be. Takes what is wrong, and what to write instead; node: where, if not the value itself."""

    def __init__(self, what: str, remedy: str, node: Node | None = None) -> None:
        super().__init__(what)
        self.what, self.remedy, self.node = what, remedy, node


@dataclass(frozen=True, slots=True)
class Reader:
    """read: from a node; raises Wrong. allowed: in words, for the reference table and for remedies."""

    allowed: str
    read: Read

    def __call__(self, node: Node) -> Any:
        return self.read(node)


def or_none(reader: Reader) -> Reader:
    """Also takes ``null``."""

    def read(node: Node) -> Any:
        return None if isinstance(node, Scalar) and node.plain and node.text == "null" else reader(node)

    return Reader(f"{reader.allowed}, or null", read)


def scalar(node: Node, allowed: str) -> Scalar:
    """A single value that is not empty."""
    if isinstance(node, Mapping):
        raise Wrong("keys stand where a single value belongs", f"write {allowed}")
    if not isinstance(node, Scalar):
        raise Wrong("a list stands where a single value belongs", f"write {allowed}")
    if not node.text:
        raise Wrong("has no value", f"write {allowed}, or remove the line")
    return node


def boolean() -> Reader:
    """``true`` or ``false``, written so."""
    allowed = "true or false"

    def read(node: Node) -> bool:
        value = scalar(node, allowed)
        if value.text not in ("true", "false") or not value.plain:
            raise Wrong(f"{shown(value.text)} is neither true nor false", f"write {allowed}, without quotes")
        return value.text == "true"

    return Reader(allowed, read)


def number(least: float, most: float, whole: bool = False) -> Reader:
    """A decimal number in [least, most]; an int where `whole`."""
    allowed = f"a{' whole' if whole else ''} number from {least:g} to {most:g}"

    def read(node: Node) -> float:
        value = scalar(node, allowed)
        if not _NUMBER.fullmatch(value.text) or (whole and "." in value.text):
            raise Wrong(_no_number(value.text, whole), f"write {allowed}")
        if not value.plain:
            raise Wrong("a number stands in quotes", "take the quotes away")
        amount = _within(float(value.text), least, most, value.text, allowed)       # int() refuses thousands of digits
        return int(value.text) if whole else amount

    return Reader(allowed, read)


def _no_number(text: str, whole: bool) -> str:
    if re.fullmatch(r"[-+]?0[0-9_]+", text):
        return f"{shown(text)} is another number to programs that take a leading 0 for octal"
    if re.fullmatch(r"\d+(:\d+)+", text):
        return f"{shown(text)} is a time of day, or a number to the base 60"
    return f"{shown(text)} is not a {'whole ' if whole else ''}number"


def _within(value: float, least: float, most: float, text: str, allowed: str) -> float:
    if not least <= value <= most:
        raise Wrong(f"{shown(text)} is too {'small' if value < least else 'large'}", f"write {allowed}")
    return value


def _quantity(units: dict[str, float], least: str, most: str, kind: str, whole: bool) -> Reader:
    pattern = re.compile(rf"([0-9]+(?:\.[0-9]+)?)({'|'.join(units)})")
    example = f"{kind} from {least} to {most}"

    def parse(text: str) -> float | None:
        found = pattern.fullmatch(text)
        if found is None:
            return None
        value = float(found[1]) * units[found[2]]
        return round(value) if whole and math.isfinite(value) else round(value, 6)

    low, high = parse(least), parse(most)
    assert low is not None and high is not None

    def read(node: Node) -> float:
        value = scalar(node, example)
        if re.fullmatch(r"0+[0-9].*", value.text):
            raise Wrong(f"{shown(value.text)} begins with a needless 0", f"write {example}")
        amount = parse(value.text)
        if amount is None:
            if _NUMBER.fullmatch(value.text):
                raise Wrong(f"{shown(value.text)} has no unit", f"add one of {' '.join(units)}: {example}")
            raise Wrong(f"{shown(value.text)} is not {kind}", f"write {example}; units are {' '.join(units)}")
        return _within(amount, low, high, value.text, example)

    return Reader(example, read)


def duration(least: str, most: str) -> Reader:
    """``250ms 10s 5m 2h 7d``, in seconds."""
    return _quantity(_SECONDS, least, most, "a duration", whole=False)


def size(least: str, most: str) -> Reader:
    """``50M 20G 2T``, in bytes; powers of 1024."""
    return _quantity({unit: float(value) for unit, value in _BYTES.items()}, least, most, "a size", whole=True)


def rate(least: str, most: str) -> Reader:
    """``800k 2M`` bits a second, in kilobits; powers of 1000."""
    return _quantity({unit: float(value) for unit, value in _KILOBITS.items()}, least, most, "a bit rate", whole=True)


def choice(*words: str) -> Reader:
    """One of some words."""
    allowed = " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]

    def read(node: Node) -> str:
        value = scalar(node, allowed)
        if value.text not in words:
            raise Wrong(f"{shown(value.text)} is not known", f"write {allowed}")
        return value.text

    return Reader(allowed, read)


def text(allowed: str) -> Reader:
    """Any text on one line that no YAML program takes for something else."""

    def read(node: Node) -> str:
        value = scalar(node, allowed)
        if value.plain and _NOT_A_TEXT.fullmatch(value.text):
            raise Wrong(f"{shown(value.text)} is no text to other programs that read YAML", "put it in quotes")
        if not value.text.isprintable():
            raise Wrong("holds a line end or a character that cannot be seen", "write it on one line")
        return value.text

    return Reader(allowed, read)


def path() -> Reader:
    """An absolute path, without ``..``."""
    allowed = "a path that begins with /"

    def read(node: Node) -> Path:
        value = text(allowed)(node)
        if not value.startswith("/"):
            raise Wrong(f"{shown(value)} is not a full path", f"write {allowed}")
        if ".." in Path(value).parts:
            raise Wrong("has .. in it", "write the path without it")
        return Path(value)

    return Reader(allowed, read)


def color() -> Reader:
    """Six hexadecimal digits as red, green, blue; in quotes, since ``000000`` is a number otherwise."""
    allowed = 'red, green and blue in quotes, such as "0080ff"'

    def read(node: Node) -> tuple[int, int, int]:
        value = scalar(node, allowed)
        if value.plain or not re.fullmatch(r"[0-9a-fA-F]{6}", value.text):
            raise Wrong(f"{shown(value.text)} is not a colour in quotes", f"write {allowed}")
        red, green, blue = bytes.fromhex(value.text)
        return red, green, blue

    return Reader(allowed, read)


def items(reader: Reader, most: int, allowed: str) -> Reader:
    """A list, as a tuple."""

    def read(node: Node) -> tuple[Any, ...]:
        if not isinstance(node, Items):
            raise Wrong("is not a list", f"write {allowed}")
        if len(node.nodes) > most:
            raise Wrong(f"has {len(node.nodes)} entries", f"write at most {most}")
        values = []
        for each in node.nodes:
            try:
                values.append(reader(each))
            except Wrong as wrong:
                raise Wrong(wrong.what, wrong.remedy, wrong.node or each) from None
        return tuple(values)

    return Reader(allowed, read)


def finite_fraction(node: Node) -> float:
    """A number from 0 to 1."""
    value = number(0, 1)(node)
    assert math.isfinite(value)
    return float(value)
