"""A hash of what settings mean; comments, order and spelling in the file do not matter."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any


def digest(settings: Any) -> str:
    """SHA-256, hexadecimal, over the values as canonical JSON. `config_sha256` itself is left out."""
    text = json.dumps(_plain(settings), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        fields.pop("config_sha256", None)
        return {"": type(value).__name__, **fields}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
