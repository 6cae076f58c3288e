"""From the file to `ServiceSettings`: sections, defaults under each camera, rules, hashes. All or nothing (P9)."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping as Dict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from edge.cameras import CameraSettings, ServiceSettings
from edge.config.digest import digest
from edge.config.document import Faults, Items, Mapping, Node, Refused, Scalar, read_document, shown
from edge.config.rules import Place, check_cameras, check_values
from edge.config.schema import CAMERA, SERVICE, SOURCE, Key, below
from edge.config.sources import KINDS
from edge.config.values import Wrong, text

CAMERA_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
RESERVED = ("inference", "keeper")      # the daemon's other processes, in status and journal
_SECTIONS = ("service", "defaults", "cameras")
_NAMED = "letters, digits, _ and -, at most 64"
Settings = TypeVar("Settings")


@dataclass(frozen=True, slots=True)
class Read:
    """A value and where it stands."""

    value: Any
    place: Place


def load_service(path: Path) -> ServiceSettings:
    """Read a configuration. Touches no camera, directory, model or secret.

    Raises ConfigError whose text has one line, ``file:line: key: what; remedy``, for each fault, in file order.
    """
    faults = Faults(path)
    document = read_document(path, faults)
    sections: dict[str, Node] = {}
    for key, node in document.pairs:
        if key.text in _SECTIONS:
            sections[key.text] = node
        else:
            _unknown(key, "", _SECTIONS, faults)
    service = _section(sections.get("service"), "service", SERVICE, faults)
    defaults = _section(sections.get("defaults"), "defaults", CAMERA, faults)
    check_values({key: read.value for key, read in defaults.items()}, _places(defaults), faults)
    cameras = _cameras(sections.get("cameras"), defaults, faults)
    check_cameras([(settings, place) for settings, place in cameras], faults)
    faults.raise_if_any()
    whole = ServiceSettings(cameras=tuple(settings for settings, _ in cameras))
    whole = with_fields(whole, {SERVICE[key].field: read.value for key, read in service.items()})
    return dataclasses.replace(whole, config_sha256=digest(whole))


def _cameras(node: Node | None, defaults: Dict[str, Read], faults: Faults) -> list[tuple[CameraSettings, Place]]:
    if isinstance(node, Refused):
        return []
    if not isinstance(node, Mapping) or not node.pairs:
        line = node.line if node else 0
        what = "is not a set of names" if isinstance(node, Items | Scalar) and not _empty(node) else "has no cameras"
        faults.add(line, "cameras", what, "write each name, and under it source: and what differs from defaults:")
        return []
    found = []
    for key, values in node.pairs:
        where = f"cameras.{key.text}"
        try:
            if not CAMERA_NAME.fullmatch(text(_NAMED)(key)):
                raise Wrong(f"{shown(key.text)} is not a name for a camera", f"use {_NAMED}")
            if key.text.lower() in RESERVED:
                raise Wrong(f"{shown(key.text)} is the name of a part of the daemon", "give the camera another name")
        except Wrong as wrong:
            faults.add(key.line, "cameras", wrong.what, wrong.remedy)
            continue
        own = _section(values, where, {**CAMERA, **SOURCE}, faults, needed=True)
        camera = _camera(key, own, defaults, isinstance(values, Refused), faults)
        if camera is not None:
            found.append((camera, Place(key.line, where)))
    return found


def _camera(
    key: Scalar, own: Dict[str, Read], defaults: Dict[str, Read], refused: bool, faults: Faults
) -> CameraSettings | None:
    where = f"cameras.{key.text}"
    merged = {**defaults, **own}
    if "recording.quality" in own and "recording.bitrate" not in own:
        merged.pop("recording.bitrate", None)       # a camera's own word on quality beats the default bit rate
    values = {name: read.value for name, read in merged.items()}
    before = len(faults.found)
    check_values(values, _places(merged), faults)
    kinds = sorted({name.split(".")[1] for name in own if name.startswith("source.")})
    if len(kinds) != 1:
        broken = refused or any(f": {where}.source" in fault for _, fault in faults.found)
        if kinds or not broken:
            what = f"has {len(kinds)} sources ({', '.join(kinds)})" if kinds else "has no source"
            faults.add(key.line, where, what, f"write source: with one of {', '.join(KINDS)}")
        return None
    prefix = f"source.{kinds[0]}."
    missing = [name for name in SOURCE if name.startswith(prefix) and SOURCE[name].needed and name not in own]
    for name in missing:
        if not any(f": {where}.{name}: " in fault for _, fault in faults.found):
            line = min(read.place.line for other, read in own.items() if other.startswith(prefix))
            faults.add(line, f"{where}.{name}", "is missing", f"write {SOURCE[name].read.allowed}")
    if missing or len(faults.found) > before:
        return None
    parts = {SOURCE[name].field: values[name] for name in own if name.startswith(prefix)}
    fields = {CAMERA[name].field: value for name, value in values.items() if name in CAMERA and CAMERA[name].field}
    fields.update({field: parts.pop(field) for field in list(parts) if field.startswith("run.")})
    settings = with_fields(CameraSettings(key.text, KINDS[kinds[0]](**parts)), fields)
    return dataclasses.replace(settings, config_sha256=digest(settings))


def _section(
    node: Node | None, where: str, keys: Dict[str, Key], faults: Faults, prefix: str = "", needed: bool = False
) -> dict[str, Read]:
    """The values under `node`, by dotted key. Wrong ones are left out, and reported."""
    if node is None or isinstance(node, Refused) or (_empty(node) and not needed):
        return {}
    if _empty(node):
        node = Mapping(node.line)
    known = below(dict(keys), prefix)
    if not isinstance(node, Mapping):
        what = "is a list" if isinstance(node, Items) else "is a single value"
        faults.add(node.line, where, f"{what} where keys belong", f"write {', '.join(known)} under it")
        return {}
    found: dict[str, Read] = {}
    for key, value in node.pairs:
        name = f"{prefix}.{key.text}" if prefix else key.text
        if key.text not in known:
            _unknown(key, where, known, faults)
        elif name in keys:
            place = Place(value.line, f"{where}.{key.text}")
            if (read := _value(keys[name], name, value, place, faults)) is not None:
                found[name] = read
        else:
            found.update(_section(value, f"{where}.{key.text}", keys, faults, name, needed=name.startswith("source")))
    return found


def _value(key: Key, name: str, node: Node, place: Place, faults: Faults) -> Read | None:
    if isinstance(node, Refused):
        return None
    try:
        return Read(key.read(node), place)
    except Wrong as wrong:
        line = wrong.node.line if wrong.node is not None else node.line
        if name == "audio":
            faults.add(line, place.key, "sound is never recorded: voices identify people", "write drop, or remove it")
        else:
            faults.add(line, place.key, wrong.what, wrong.remedy)
        return None


def _unknown(key: Scalar, where: str, known: Any, faults: Faults) -> None:
    near = difflib.get_close_matches(key.text.replace("-", "_").lower(), known, 1)
    elsewhere = [name for name in {**CAMERA, **SERVICE} if name.rpartition(".")[2] == key.text and "." in name]
    if elsewhere and where.startswith(("defaults", "cameras")):
        remedy = f"it belongs under {elsewhere[0].rpartition('.')[0]}:"
    elif near:
        remedy = f'did you mean "{near[0]}"?'
    elif key.text in ("source", "name") and where == "defaults":
        remedy = "each camera has its own; write it under cameras:"
    else:
        remedy = f"known here: {', '.join(known)}"
    faults.add(key.line, where, f"unknown key {shown(key.text)}", remedy)


def _empty(node: Node) -> bool:
    return isinstance(node, Scalar) and node.plain and not node.text


def _places(values: Dict[str, Read]) -> dict[str, Place]:
    return {name: read.place for name, read in values.items()}


def with_fields(settings: Settings, fields: Dict[str, Any]) -> Settings:
    """A copy of a frozen dataclass with other values at dotted fields."""
    changes: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for field, value in fields.items():
        head, dot, rest = field.partition(".")
        if dot:
            nested.setdefault(head, {})[rest] = value
        else:
            changes[head] = value
    for head, inner in nested.items():
        changes[head] = with_fields(getattr(settings, head), inner)
    return dataclasses.replace(settings, **changes)  # type: ignore[type-var]
