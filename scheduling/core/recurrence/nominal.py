"""The local times in a gap for which an occurrence stands: what its fire and a preview list beside the instant."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice

from scheduling.core.clock import EPOCH
from scheduling.core.recurrence.calendar import Bounded
from scheduling.core.recurrence.cron import Cron
from scheduling.core.recurrence.rrule import RRule
from scheduling.core.recurrence.schedule import Schedule

MOST_NOMINAL = 60  # a schedule of every second has 3,600 in an hour's gap
_WALL_EPOCH = EPOCH.replace(tzinfo=None)
_SECOND = timedelta(seconds=1)
_WALLED = (Cron, RRule)  # a union would be made anew at each call: every claimed fire is asked


def walled(schedule: Schedule) -> Cron | RRule | None:
    """The schedule that lives on a wall, if this is one or bounds one."""
    inner = schedule.schedule if isinstance(schedule, Bounded) else schedule
    return inner if isinstance(inner, _WALLED) else None


def nominal_times(schedule: Schedule, moment: datetime) -> tuple[datetime, ...]:
    """The skipped local times, naive, that the occurrence at ``moment`` stands for; the first of very many."""
    wall = walled(schedule)
    if wall is None or not wall.line.wall_clock or wall.tz == "UTC":
        return ()
    local_times = wall.line.in_gap((moment - EPOCH) // _SECOND)
    return tuple(_WALL_EPOCH + local * _SECOND for local in islice(local_times, MOST_NOMINAL))
