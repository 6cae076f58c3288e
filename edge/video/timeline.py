"""When a picture is shown: buffer times to the source's own time line, always going forward."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

_FALLBACK_DURATION_NS = 40_000_000
_JUMP_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a picture lies, nanoseconds. jumped: its time lies so far back that a new epoch has to begin."""

    pts_ns: int
    duration_ns: int
    jumped: bool


class Timeline:
    """Keeps presentation times as the source gives them and mends what no file may have: gaps in the labelling, equal
    times, small steps back."""

    def __init__(self) -> None:
        self.first_ns: int | None = None
        self.nominal_duration_ns = _FALLBACK_DURATION_NS
        self._last: Moment | None = None

    def set_frame_rate(self, rate: Fraction | None) -> None:
        """What pictures last that do not say so; None keeps what was known."""
        if rate is not None:
            self.nominal_duration_ns = round(1_000_000_000 / rate)

    def place(self, pts_ns: int | None, duration_ns: int | None) -> Moment:
        """The moment of the next picture; None stands for what the source does not say."""
        if duration_ns is None or duration_ns < self.nominal_duration_ns // 4:
            duration_ns = self.nominal_duration_ns          # matroskademux gives the last picture 1 ms
        last, jumped = self._last, False
        if pts_ns is None:
            pts_ns = 0 if last is None else last.pts_ns + last.duration_ns
        if last is not None and pts_ns <= last.pts_ns:
            jumped = last.pts_ns - pts_ns > _JUMP_NS
            if not jumped:
                pts_ns = last.pts_ns + min(last.duration_ns, self.nominal_duration_ns) // 2
        if self.first_ns is None:
            self.first_ns = pts_ns
        self._last = Moment(pts_ns, duration_ns, jumped)
        return self._last
