"""What a child prints, as a bounded number of bounded lines: native libraries write what they like to stderr."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from edge.service.journal import LineBudget
from edge.text import one_line

MAX_LINE_BYTES = 500
READ_BYTES = 16 << 10
LAST_READS = 8                      # a pipe holds 64 KiB
# A traceback fits; a decoder that complains about every picture does not.
BURST_LINES, INTERVAL_S = 60, 2.0
# user:password@ of an address, in case that a library prints one.
USERINFO = re.compile(rb"(?<=://)[^/\s@]*@")


class Output:
    """Reads a descriptor that does not block, and hands on lines. say: gets each, without line end."""

    def __init__(self, descriptor: int, say: Callable[[str], None], now_s: float) -> None:
        self._descriptor, self._say = descriptor, say
        self._partial, self._skipping = b"", False
        self._budget = LineBudget(BURST_LINES, INTERVAL_S, now_s)
        self.last_line = ""

    def read(self, now_s: float) -> bool:
        """Read what is there, not more than a turn's worth. False at its end."""
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._end_line(line, now_s)
        self._add(rest)
        return True

    def finish(self, now_s: float) -> None:
        """The process has ended: what it wrote before, and what was left out."""
        for _ in range(LAST_READS):
            if not self.read(now_s):
                break
        if self._partial:
            self._end_line(b"", now_s)
        self.tick(now_s, at_end=True)

    def tick(self, now_s: float, at_end: bool = False) -> None:
        """Say now and then how much was left out."""
        if count := self._budget.left_out(now_s, at_end):
            self._say(f"({count} more lines were left out)")

    def _add(self, piece: bytes) -> None:
        if not self._skipping:
            self._partial += piece
            if len(self._partial) > MAX_LINE_BYTES:
                self._partial, self._skipping = self._partial[:MAX_LINE_BYTES], True

    def _end_line(self, piece: bytes, now_s: float) -> None:
        self._add(piece)
        text = one_line(USERINFO.sub(b"***@", self._partial).decode("utf-8", "replace").rstrip())
        self._partial, self._skipping = b"", False
        if not text:
            return
        self.last_line = text
        if self._budget.allows(now_s):
            self._say(text)
