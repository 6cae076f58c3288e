"""A configuration file as nodes that know their line; a strict part of YAML, in which a value means one thing only.

Scalars stay text here: what a text means is up to the key that it belongs to (`edge.config.values`), so ``no`` and
``010`` never turn into something else unseen. Anchors, aliases, merge keys, tags and several documents are refused.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from edge.errors import ConfigError
from edge.text import one_line

MAX_BYTES = 256 << 10
MAX_DEPTH = 12
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text. plain: without quotes; then an empty one means that there is no value."""

    line: int
    text: str
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    line: int
    nodes: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and values in file order; each key once."""

    line: int
    pairs: tuple[tuple[Scalar, Node], ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Where something stands that was reported already; nothing more is said about it."""

    line: int


Node = Scalar | Items | Mapping | Refused


@dataclass(slots=True)
class Faults:
    """What is wrong in a file, gathered so that all of it is said at once.

    path: for messages. Lines start at 1; 0 is the file as a whole.
    """

    path: Path
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, key: str, what: str, remedy: str) -> None:
        """Note one. key: dotted, or empty. A text never holds a value that may be secret."""
        place = f"{self.path}:{line}" if line else f"{self.path}"
        text = f"{place}: {key + ': ' if key else ''}{what}; {remedy}"
        if (line, text) not in self.found:
            self.found.append((line, text))

    def raise_if_any(self) -> None:
        """Raise ConfigError with one line for each, in file order."""
        if self.found:
            raise ConfigError("\n".join(text for _, text in sorted(self.found, key=lambda fault: fault[0])))


def shown(text: str) -> str:
    """A text of the file for a message: short, on one line, and nothing that may hold a password."""
    if "@" in text or "://" in text:
        return "(an address)"
    short = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    return f'"{one_line(short)}"'


def read_document(path: Path, faults: Faults) -> Mapping:
    """The file's only document. What is wrong with it as YAML is added to `faults`.

    Raises ConfigError at once where nothing after it can be understood.
    """
    text = _text(path, faults)
    for number, row in enumerate(text.split("\n"), 1):
        indentation = row[: len(row) - len(row.lstrip(" \t"))]
        if "\t" in indentation and row.strip() and not row.lstrip().startswith("#"):
            faults.add(number, "", "is indented with a tab", "use spaces")
    faults.raise_if_any()
    try:
        node = _Composer(text, faults).document()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        faults.add(line, "", "holds a control character", "remove it; write other characters as UTF-8")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        faults.add(mark.line + 1 if mark else 0, "", f"is not YAML ({_problem(error)})",
                   "check indentation, colons, brackets and quotes here and in the line before")  # fmt: skip
    else:
        if isinstance(node, Mapping):
            return node
        if not isinstance(node, Refused):
            faults.add(0, "", "holds no sections", "it needs at least the section cameras; see docs/configuration.md")
    faults.raise_if_any()
    raise AssertionError("a document that is no mapping was not reported")


def _text(path: Path, faults: Faults) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise ConfigError(f"{path}: is not a file", "name the configuration file")
            if facts.st_mode & stat.S_IWOTH:
                raise ConfigError(f"{path}: every user of this machine can write it", f"run: chmod o-w {path}")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "check the name, and who may read it") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_BYTES >> 10} KiB", "move what cameras share to defaults")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        faults.add(line, "", f"byte 0x{content[error.start]:02x} is not UTF-8", "save the file as UTF-8")
    faults.raise_if_any()
    raise AssertionError("bytes that are not UTF-8 were not reported")


def _problem(error: yaml.MarkedYAMLError) -> str:
    """PyYAML's words, without what it quotes from the file: that may be a part of a password."""
    quoted = re.compile(r"'([^'\n]*)'")       # a single character, or a kind of token such as <block end>, may be shown
    words = quoted.sub(lambda found: found[0] if len(found[1]) <= 1 or found[1].startswith("<") else "something",
                       error.problem or "cannot be read")  # fmt: skip
    return one_line(words)


def _inside(place: str, key: str) -> str:
    """The dotted path of a key. What stands under a password may be one, and is not repeated in messages."""
    if re.search(r"(^|\.)password$", place) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", key):
        return place
    return f"{place}.{key}" if place else key


class _Composer:
    """Parser events to nodes. PyYAML's own composer follows aliases and keeps no line of a key."""

    def __init__(self, text: str, faults: Faults) -> None:
        self._loader: Any = yaml.SafeLoader(text)
        self._faults = faults

    def document(self) -> Node | None:
        """The first document; None when there is none."""
        try:
            self._next()                                        # start of the stream
            if isinstance(self._loader.peek_event(), yaml.StreamEndEvent):
                return None
            self._next()                                        # start of the document
            node = self._node(0)
            self._next()                                        # its end
            rest = self._loader.peek_event()
            if not isinstance(rest, yaml.StreamEndEvent):
                self._faults.add(rest.start_mark.line + 1, "", "a second document begins", "keep one; remove ---")
            return node
        finally:
            self._loader.dispose()

    def _next(self) -> Any:
        return self._loader.get_event()

    def _node(self, depth: int, place: str = "") -> Node:
        event = self._next()
        line = event.start_mark.line + 1
        refused = self._refuse(event, line, place)
        node: Node
        if depth > MAX_DEPTH:
            self._faults.add(line, place, f"is nested more than {MAX_DEPTH} deep", "check the brackets")
            self._faults.raise_if_any()
        if isinstance(event, yaml.SequenceStartEvent):
            nodes = []
            while not isinstance(self._loader.peek_event(), yaml.SequenceEndEvent):
                nodes.append(self._node(depth + 1, place))
            self._next()
            node = Items(line, tuple(nodes))
        elif isinstance(event, yaml.MappingStartEvent):
            node = self._mapping(line, depth, place)
        elif isinstance(event, yaml.ScalarEvent):
            node = Scalar(line, event.value, plain=event.style is None)
        else:
            node = Refused(line)
        return Refused(line) if refused else node

    def _mapping(self, line: int, depth: int, place: str) -> Mapping:
        pairs: list[tuple[Scalar, Node]] = []
        seen: dict[str, int] = {}
        while not isinstance(self._loader.peek_event(), yaml.MappingEndEvent):
            key = self._node(depth + 1, place)
            inside = _inside(place, key.text) if isinstance(key, Scalar) else place
            value = self._node(depth + 1, inside)
            if isinstance(key, Refused):
                continue
            if not isinstance(key, Scalar):
                self._faults.add(key.line, place, "a list or mapping stands where a key belongs", "write key: value")
            elif key.plain and key.text == "<<":
                self._faults.add(key.line, place, "merge keys (<<) are not read", "move what cameras share to defaults")
            elif key.text in seen:
                self._faults.add(key.line, inside, f"is in line {seen[key.text]} already", "remove one of the two")
            else:
                seen[key.text] = key.line
                pairs.append((key, value))
        self._next()
        return Mapping(line, tuple(pairs))

    def _refuse(self, event: Any, line: int, place: str) -> bool:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self._faults.add(line, place, "anchors (&) and aliases (*) are not read",
                             "move what cameras share to defaults; put a text that begins so in quotes")  # fmt: skip
            return True
        if event.tag is not None:
            self._faults.add(line, place, "tags (!) are not read", "remove it; put a text that begins so in quotes")
            return True
        return False
