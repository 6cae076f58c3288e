"""Whether a file is all there. Demuxers end a file that was cut off without a word, so its own sizes are looked at."""

from __future__ import annotations

import os
import struct
from pathlib import Path

_MP4_FIRST_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip", b"pnot")
_MISSING_S, _MISSING_SHARE = 1.0, 0.02


def is_cut_off(path: Path) -> bool:
    """Whether an MP4, MOV or AVI file is shorter than it says. False for others, which do not say."""
    try:
        with path.open("rb") as file:
            total = os.fstat(file.fileno()).st_size
            head = file.read(64)
            if head[4:8] in _MP4_FIRST_BOXES:
                at = 0
                while at + 8 <= total:
                    file.seek(at)
                    size, _, large = struct.unpack(">I4sQ", file.read(16).ljust(16, b"\0"))
                    size = large if size == 1 else size
                    if size < 8:
                        return False                     # 0: up to the end of the file; else not a box
                    at += size
                return at > total
            if head[:4] == b"RIFF":
                return int(struct.unpack_from("<I", head, 4)[0]) + 8 > total
    except (OSError, struct.error):
        pass
    return False


def falls_short(end_s: float, duration_s: float | None) -> bool:
    """Whether the pictures of a file end clearly before the duration that its only stream has."""
    return duration_s is not None and duration_s - end_s > max(_MISSING_S, _MISSING_SHARE * duration_s)
