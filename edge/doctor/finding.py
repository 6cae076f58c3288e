"""What a check found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line for people. level: ``error`` when recording cannot work as configured, ``warning`` when it works worse
    or will stop working. remedy: what to do, one sentence. No secrets in either."""

    level: Level
    text: str
    remedy: str = ""
