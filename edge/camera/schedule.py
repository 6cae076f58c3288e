"""When a camera records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from edge.cameras import Period


def is_on(schedule: Sequence[Period], moment: datetime) -> bool:
    """Whether `moment`, in local time, lies in one of the periods; an empty schedule is always on."""
    minute = moment.hour * 60 + moment.minute
    return not schedule or any(_contains(period, moment.weekday(), minute) for period in schedule)


def _contains(period: Period, day: int, minute: int) -> bool:
    if period.start_min < period.end_min:
        return day in period.days and period.start_min <= minute < period.end_min
    # Over midnight; what begins yesterday ends this morning. Equal ends: a whole day.
    evening = day in period.days and minute >= period.start_min
    return evening or ((day - 1) % 7 in period.days and minute < period.end_min)
