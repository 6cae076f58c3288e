"""Time: the monotonic clock says how long, UTC says when; tests bring clocks of their own."""

from __future__ import annotations

import ctypes
import time
from datetime import datetime, timezone
from typing import Protocol

_STA_UNSYNC = 0x0040        # adjtimex(2)
_STATUS_OFFSET = 40         # of `status` in struct timex, where long has 64 bits
_TIMEX_BYTES = 208


class Clock(Protocol):
    """utc_s: seconds since 1970, may be set at any moment. monotonic_s: never set."""

    def utc_s(self) -> float: ...

    def monotonic_s(self) -> float: ...

    def is_synchronised(self) -> bool | None: ...


class SystemClock:
    """The clocks of this machine."""

    def utc_s(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic_s(self) -> float:
        """Seconds since some moment before this process started."""
        return time.monotonic()

    def is_synchronised(self) -> bool | None:
        """Whether the kernel's clock follows a time server; None where it does not say."""
        timex = ctypes.create_string_buffer(_TIMEX_BYTES)       # modes is 0: only reads
        if ctypes.CDLL(None).adjtimex(timex) < 0:
            return None
        status = int.from_bytes(timex.raw[_STATUS_OFFSET : _STATUS_OFFSET + 4], "little")
        return not status & _STA_UNSYNC


def utc_text(utc_s: float) -> str:
    """ISO 8601 with milliseconds and Z."""
    return datetime.fromtimestamp(utc_s, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_of(text: str) -> float:
    """Seconds since 1970 of what `utc_text` made. Raises ValueError."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
