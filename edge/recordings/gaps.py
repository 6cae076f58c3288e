"""Times without frames: from the end of the last frame that was written to the first one after it."""

from __future__ import annotations

from dataclasses import dataclass

from edge.recordings.clock import Clock
from edge.recordings.ledger import MAX_GAPS, Gap

NOT_RUNNING, STARTING, NO_FRAMES, STOPPED = "not running", "starting", "no frames", "stopped"
MIN_GAP_S = 1.0         # unasked-for gaps that are shorter are the source's rhythm


@dataclass(frozen=True, slots=True)
class _Open:
    start_utc_s: float
    start_monotonic_s: float
    reason: str


class GapLog:
    """Opens gaps, closes them, and keeps closed ones until there is a segment to tell of them. Used by one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: _Open | None = None
        self._closed: list[Gap] = []
        self._last: tuple[float, float] | None = None       # UTC and monotonic time at the end of the last frame

    @property
    def reason(self) -> str:
        """Of the gap that is open; empty when none is."""
        return self._open.reason if self._open else ""

    def began_after(self, end_utc_s: float) -> None:
        """This process starts; the recording before it ended then."""
        now_s = self._clock.utc_s()
        if now_s - end_utc_s > MIN_GAP_S:
            self._keep(Gap(end_utc_s, now_s - end_utc_s, NOT_RUNNING))
        self._open = self._open or _Open(now_s, self._clock.monotonic_s(), STARTING)

    def begin(self, reason: str) -> None:
        """From here on no frames come. While a gap is open for another reason, that one ends."""
        if self._open is not None:
            if self._open.reason == STARTING:
                self._open = _Open(self._open.start_utc_s, self._open.start_monotonic_s, reason)
                return
            if self._open.reason == reason:
                return
            self._close(self._clock.monotonic_s())
            self._open = _Open(self._clock.utc_s(), self._clock.monotonic_s(), reason)
            return
        utc_s, monotonic_s = self._last or (self._clock.utc_s(), self._clock.monotonic_s())
        self._open = _Open(utc_s, monotonic_s, reason)

    def frame_written(self, end_utc_s: float, duration_s: float, silent_s: float) -> list[Gap]:
        """A frame was written that ends then; gives the gaps that have to be told.

        silent_s: how long no frame was there before it, by the source's own time or by ours.
        """
        now_s = self._clock.monotonic_s()
        if self._open is not None:
            self._close(now_s)
        elif self._last is not None and silent_s > max(MIN_GAP_S, 3 * duration_s):
            self._keep(Gap(self._last[0], silent_s, NO_FRAMES))
        self._last = (end_utc_s, now_s + duration_s)
        closed, self._closed = self._closed, []
        return closed

    def unfinished(self) -> Gap | None:
        """The gap that is open, as one that lasts up to the next segment."""
        return Gap(self._open.start_utc_s, None, self._open.reason) if self._open else None

    def _close(self, now_s: float) -> None:
        gap, self._open = self._open, None
        if gap is not None and (duration_s := now_s - gap.start_monotonic_s) > 0:
            self._keep(Gap(gap.start_utc_s, duration_s, gap.reason))

    def _keep(self, gap: Gap) -> None:
        if len(self._closed) < MAX_GAPS:
            self._closed.append(gap)
