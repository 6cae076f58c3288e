"""Values with a shape of their own: zones of the picture, times of the week, references to secrets."""

from __future__ import annotations

import re
from typing import Any, Literal

from edge.cameras import Period, SecretRef
from edge.config.document import Items, Mapping, Node, Refused, Scalar, shown
from edge.config.values import Reader, Wrong, finite_fraction, items, scalar, text
from edge.settings import Zone

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MAX_CORNERS = 1000
_CORNERS = "a list of at least three corners, each [x, y] from 0 to 1"
_SECRET = "credential: NAME, environment: VARIABLE or file: /PATH"
_ZONE_KINDS: tuple[Literal["always", "never"], ...] = ("always", "never")
_SECRET_KINDS: tuple[Literal["credential", "environment", "file"], ...] = ("credential", "environment", "file")

_SECRET_NAMES = {
    "credential": (r"[A-Za-z0-9_.@-]{1,255}", "the name of a credential"),
    "environment": (r"[A-Za-z_][A-Za-z0-9_]*", "the name of a variable"),
    "file": (r"/[^\0-\x1f]+", "a full path"),
}


def _entries(node: Node, keys: tuple[str, ...], allowed: str) -> dict[str, Node]:
    if not isinstance(node, Mapping):
        raise Wrong("is not a set of keys", f"write {allowed}", node)
    for key, _ in node.pairs:
        if key.text not in keys:
            raise Wrong(f"unknown key {shown(key.text)}", f"write {allowed}", key)
    return {key.text: value for key, value in node.pairs}


def zones() -> Reader:
    """A list of ``always`` or ``never`` polygons, each with an optional name for people."""
    return items(Reader(_CORNERS, _zone), 64, "a list of always: or never: and corners")


def _zone(node: Node) -> Zone:
    entries = _entries(node, ("name", "always", "never"), f"always: or never: and {_CORNERS}")
    label = f"zone {shown(text('a name')(entries['name']))}" if "name" in entries else "zone"
    kinds = [kind for kind in _ZONE_KINDS if kind in entries]
    if len(kinds) != 1:
        which = "both always and" if kinds else "neither always nor"
        raise Wrong(f"{label} has {which} never", "give each zone one of them")
    corners = entries[kinds[0]]
    if not isinstance(corners, Items) or not 3 <= len(corners.nodes) <= MAX_CORNERS:
        raise Wrong(f"{label} has no polygon", f"write {_CORNERS}", corners)
    points = tuple(_corner(each) for each in corners.nodes)
    if _is_flat(points):
        raise Wrong(f"{label} has no area: its corners lie on one line", f"write {_CORNERS}", corners)
    return Zone(kinds[0], points)


def _corner(node: Node) -> tuple[float, float]:
    if not isinstance(node, Items) or len(node.nodes) != 2:
        raise Wrong("a corner is not [x, y]", f"write {_CORNERS}", node)
    try:
        x, y = map(finite_fraction, node.nodes)
    except Wrong as wrong:
        raise Wrong(f"a corner is not in the picture: {wrong.what}", wrong.remedy, node) from None
    return x, y


def _is_flat(points: tuple[tuple[float, float], ...]) -> bool:
    """Whether all corners lie on one line."""
    (x0, y0), *rest = points
    x1, y1 = max(rest, key=lambda point: (point[0] - x0) ** 2 + (point[1] - y0) ** 2)
    return all(abs((x1 - x0) * (y - y0) - (x - x0) * (y1 - y0)) < 1e-9 for x, y in rest)


def schedule() -> Reader:
    """A list of times of the week."""
    allowed = 'a list of days: mon-fri, from: "08:00", to: "18:00"'
    return items(Reader(allowed, _period), 100, allowed)


def _period(node: Node) -> Period:
    allowed = 'days: mon-fri (or sat, sun), from: "08:00", to: "18:00"'
    entries = _entries(node, ("days", "from", "to"), allowed)
    for key in ("from", "to"):
        if key not in entries:
            raise Wrong(f"has no {key}", f"write {allowed}", node)
    days = _days(entries["days"]) if "days" in entries else tuple(range(7))
    start, end = _minutes(entries["from"], 24 * 60 - 1), _minutes(entries["to"], 24 * 60)
    if start == end:
        raise Wrong("begins and ends at the same time", 'write from: "00:00", to: "24:00" for the whole day', node)
    return Period(days, start, end)


def _days(node: Node) -> tuple[int, ...]:
    allowed = f"days as mon-fri, or a list of {', '.join(DAYS)}"
    words = [scalar(each, allowed) for each in node.nodes] if isinstance(node, Items) else [scalar(node, allowed)]
    chosen: set[int] = set()
    for word in words:
        for part in re.split(r"\s*,\s*", word.text.lower()):
            first, dash, last = part.partition("-")
            if first not in DAYS or (dash and last not in DAYS):
                raise Wrong(f"{shown(part)} is not a day", f"write {allowed}", word)
            start, end = DAYS.index(first), DAYS.index(last or first)
            chosen.update(day % 7 for day in range(start, (end if end >= start else end + 7) + 1))
    return tuple(sorted(chosen))


def _minutes(node: Node, most: int) -> int:
    allowed = 'a time of day such as "08:30"'
    value = scalar(node, allowed)
    found = re.fullmatch(r"([0-9]{1,2}):([0-5][0-9])", value.text)
    minutes = int(found[1]) * 60 + int(found[2]) if found else most + 1
    if minutes > most:
        raise Wrong(f"{shown(value.text)} is not a time of day", f"write {allowed}", node)
    return minutes


def secret() -> Reader:
    """Where a secret is. What stands there instead is never repeated."""

    def read(node: Node) -> SecretRef:
        if isinstance(node, Scalar) and node.text:
            raise Wrong("stands in this file, where it does not belong", f"put it elsewhere and write {_SECRET}")
        if not isinstance(node, Mapping) or len(node.pairs) != 1:
            raise Wrong("is not one place to look", f"write {_SECRET}")
        return _reference(*node.pairs[0])

    return Reader(_SECRET, read)


def _reference(key: Scalar, node: Node) -> SecretRef:
    kind = next((kind for kind in _SECRET_KINDS if kind == key.text), None)
    if kind is None:
        raise Wrong("is not a place that is known", f"write {_SECRET}", key)
    if isinstance(node, Refused):
        raise Wrong("cannot be read", f"write {_SECRET}", node)
    name: str = scalar(node, _SECRET).text
    pattern, what = _SECRET_NAMES[kind]
    if not re.fullmatch(pattern, name) or name in (".", ".."):
        raise Wrong(f"what follows {kind} is not {what}", f"write {_SECRET}", node)
    return SecretRef(kind, name)


def user() -> Reader:
    """A name, or where it is."""
    allowed = f"a text, or {_SECRET}"

    def read(node: Node) -> Any:
        if isinstance(node, Mapping):
            return secret()(node)
        value = scalar(node, allowed)
        if value.plain and not re.search("[A-Za-z]", value.text):
            raise Wrong("is a number or a sign to other programs", "put it in quotes", node)
        if not value.text.isprintable():
            raise Wrong("holds a character that cannot be seen", "write it on one line", node)
        return value.text

    return Reader(allowed, read)
