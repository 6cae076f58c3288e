"""One line per event on stderr, for the journal or a terminal: repeats are counted, floods are cut, nothing blocks."""

from __future__ import annotations

import os
import re
import select
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from edge.reports import Event, Level
from edge.text import one_line

# sd-daemon(3): a line that begins with <N> has that priority in the journal.
PRIORITIES: dict[Level, int] = {"debug": 7, "info": 6, "warning": 4, "error": 3}
REPEAT_WINDOW_S = 60.0
MAX_KEYS = 500
NUMBER = re.compile(r"\d+")
# A pipe that poll(2) calls writable takes PIPE_BUF = 4096 bytes without blocking.
MAX_LINE_BYTES = 2000


class LineBudget:
    """At most `burst` lines at once, and one more every `interval_s`; counts those that were left out."""

    def __init__(self, burst: int, interval_s: float, now_s: float) -> None:
        self._burst, self._interval_s = burst, interval_s
        self._left, self._since_s, self._said_s = float(burst), now_s, now_s
        self._left_out = 0

    def allows(self, now_s: float) -> bool:
        """Whether one more line may be written now; if not, it is counted."""
        self._left = min(self._burst, self._left + (now_s - self._since_s) / self._interval_s)
        self._since_s = now_s
        if self._left < 1.0:
            self._left_out += 1
            return False
        self._left -= 1.0
        return True

    def left_out(self, now_s: float, at_end: bool = False) -> int:
        """How many were left out since this was last not 0; not 0 at most once a minute, or at the end."""
        if not self._left_out or (now_s - self._said_s < REPEAT_WINDOW_S and not at_end):
            return 0
        count, self._left_out, self._said_s = self._left_out, 0, now_s
        return count


@dataclass(slots=True)
class _Repeats:
    until_s: float
    last: Event
    count: int = 0


class Journal:
    """Writes events to a file descriptor, stderr as a rule.

    level: what is less is left out. redact: takes secrets out of a text. environment: for ``$JOURNAL_STREAM``.
    """

    def __init__(
        self,
        descriptor: int = 2,
        level: Level = "info",
        redact: Callable[[str], str] = str,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._descriptor, self._redact, self._clock = descriptor, redact, clock
        self._threshold = PRIORITIES[level]
        self._for_journal = _is_journal(descriptor, environment.get("JOURNAL_STREAM", ""))
        self._repeats: OrderedDict[tuple[str, str, str], _Repeats] = OrderedDict()
        self._lost = 0

    def write(self, event: Event) -> None:
        """Write one line, or count it when one of its key, and of its text but for numbers, came within a minute."""
        if PRIORITIES[event.level] > self._threshold:
            return
        if not event.key:
            self._line(event, "")
            return
        now_s, key = self._clock(), (event.subject, event.key, NUMBER.sub("#", event.text))
        known = self._repeats.get(key)
        if known is not None and now_s < known.until_s:
            known.count, known.last = known.count + 1, event
            return
        if known is not None:
            self._finish(key)
        while len(self._repeats) >= MAX_KEYS:
            self._finish(next(iter(self._repeats)))
        self._repeats[key] = _Repeats(now_s + REPEAT_WINDOW_S, event)
        self._line(event, "")

    def tick(self) -> None:
        """Say what was repeated in windows that are over. To be called about once a second."""
        now_s = self._clock()
        for key in [key for key, repeats in self._repeats.items() if now_s >= repeats.until_s]:
            count, last = self._repeats[key].count, self._repeats[key].last
            self._finish(key)
            if count:           # it may go on: count from here, without showing its next one
                self._repeats[key] = _Repeats(now_s + REPEAT_WINDOW_S, last)

    def flush(self) -> None:
        """Say all that was counted; at the end of the service."""
        for key in list(self._repeats):
            self._finish(key)

    def _finish(self, key: tuple[str, str, str]) -> None:
        repeats = self._repeats.pop(key)
        if repeats.count:
            times = "once more" if repeats.count == 1 else f"{repeats.count} more times"
            self._line(repeats.last, f" (… {times} in {REPEAT_WINDOW_S:.0f} s)")

    def _line(self, event: Event, suffix: str) -> None:
        subject = f"{event.subject}: " if event.subject else ""
        text = one_line(self._redact(subject + event.text)).encode("utf-8", "replace")[:MAX_LINE_BYTES]
        text = text.decode("utf-8", "ignore").encode()          # not half a character at the end
        if self._for_journal:
            prefix = f"<{PRIORITIES[event.level]}>"
        else:
            now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            prefix = f"{now} {event.level:7} "
        if self._lost and self._put(f"{prefix}{self._lost} lines were lost: nobody read them\n".encode()):
            self._lost = 0
        if not self._put(prefix.encode() + text + suffix.encode() + b"\n"):
            self._lost += 1

    def _put(self, line: bytes) -> bool:
        """Write if that does not block, and whether it was written. Only we write to it: children have own pipes."""
        try:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            ready = poll.poll(0)
            if not ready or not ready[0][1] & select.POLLOUT:
                return False
            return os.write(self._descriptor, line) == len(line)
        except OSError:         # its reader has gone, its disk is full
            return False


def _is_journal(descriptor: int, stream: str) -> bool:
    """Whether the descriptor is the one that systemd connected to the journal: ``$JOURNAL_STREAM`` is device:inode."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return stream == f"{found.st_dev}:{found.st_ino}"
