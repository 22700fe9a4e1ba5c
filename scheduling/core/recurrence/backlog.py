"""What a schedule missed while nobody looked, without looking at each: a week of every second is 604,800 occurrences.

Only those are listed that can get a row of their own; the others are counted, by arithmetic where days repeat.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduling.core.recurrence.calendar import Bounded
from scheduling.core.recurrence.cron import Cron
from scheduling.core.recurrence.interval import Interval
from scheduling.core.recurrence.rrule import RRule
from scheduling.core.recurrence.schedule import Schedule, occurrences, utc

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Rest:
    """Occurrences of one job that share one row."""

    first: datetime
    last: datetime
    count: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """``listed`` in order; ``counted`` are those between the first one listed and the second."""

    listed: tuple[datetime, ...]
    counted: Rest | None


def backlog(schedule: Schedule, *, after: datetime, until: datetime, late_until: datetime, keep: int) -> Backlog:
    """The occurrences in (``after``, ``until``]: all behind ``late_until``; up to it the first and the newest
    ``keep``, the others counted.

    Raises InvalidField, naming the moment, if one has no time zone.
    """
    after, until = utc("after", after), utc("until", until)
    late_until = min(utc("late_until", late_until), until)
    fresh = occurrences(schedule, after=max(after, late_until), until=until)
    first = schedule.next_after(after)
    if first is None or first > late_until:
        return Backlog(tuple(fresh), None)
    newest = _newest(schedule, after=first, until=late_until, keep=keep)
    listed = (first, *newest, *fresh)
    before = newest[0] - _INSTANT if newest else late_until
    count = count_between(schedule, after=first, until=before)
    second = schedule.next_after(first)
    if not count or second is None:
        return Backlog(listed, None)
    (last,) = _newest(schedule, after=first, until=before, keep=1)
    return Backlog(listed, Rest(second, last, count))


def count_between(schedule: Schedule, *, after: datetime, until: datetime) -> int:
    """How many occurrences are in (``after``, ``until``]."""
    if until <= after:
        return 0
    match schedule:
        case Interval(every=every, anchor=anchor):
            return max(0, (until - anchor) // every + 1) - max(0, (after - anchor) // every + 1)
        case Cron(line=line) | RRule(line=line):
            return line.count(after=after, until=until)
        case Bounded(schedule=inner, start_at=start_at, end_at=end_at):
            lower = after if start_at is None else max(after, start_at - _INSTANT)
            return count_between(inner, after=lower, until=until if end_at is None else min(until, end_at))
    return sum(1 for _ in occurrences(schedule, after=after, until=until))


def _newest(schedule: Schedule, *, after: datetime, until: datetime, keep: int) -> deque[datetime]:
    """The last ``keep`` in (``after``, ``until``]: looked for in spans that double until they hold enough."""
    span = timedelta(minutes=1)
    while True:
        start = after if until - after <= span else until - span
        found = deque(occurrences(schedule, after=start, until=until), maxlen=keep)
        if len(found) == keep or start == after:
            return found
        span *= 2
