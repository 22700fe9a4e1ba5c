"""The local times of a recurrence rule, expanded by python-dateutil within our bounds.

dateutil walks from DTSTART, however far back, and one ``next()`` may run for many seconds when nothing matches (30
February). So:

* Without COUNT the start is moved to the last period (year, … minute) before the time that is asked for, in step with
  INTERVAL; the parts that DTSTART implies are said first, so that the move changes nothing.
* With COUNT all occurrences are computed once; there are 10,000 at most.
* Days that are looked at without a match are counted, and a search ends after ``MOST_DAYS``: some 40 years.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from dateutil import rrule

from scheduling.core.recurrence.rrule_text import Rule
from scheduling.core.recurrence.zones import DAY

MOST_DAYS = 15_000
_WALL_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_SECOND = timedelta(seconds=1)
_PERIOD_S = {"WEEKLY": 7 * DAY, "DAILY": DAY, "HOURLY": 3600, "MINUTELY": 60}


class _NoMatch(Exception):
    """A search looked at MOST_DAYS days in vain."""


class _Counting(tuple[int, ...]):
    """BYMONTH or BYDAY that counts how often dateutil asks it, which is for each day that it looks at."""

    asked = 0

    def __contains__(self, value: object) -> bool:
        self.asked += 1
        if self.asked > MOST_DAYS:
            raise _NoMatch
        return super().__contains__(value)


@dataclass(frozen=True, slots=True)
class RuleWall:
    """The local times of a rule that starts at ``start``, without those excluded."""

    rule: Rule
    start: datetime  # on the wall
    excluded: frozenset[int]

    def local_times(self, low: int, high: int) -> Iterator[int]:
        times = self._counted(low) if self.rule.count is not None else self._expanded(low)
        for local in times:
            if local >= high:
                return
            if local not in self.excluded:
                yield local

    def count(self, low: int, high: int) -> int:
        """How many there are in [``low``, ``high``), by looking at each: a minute is the shortest step."""
        return sum(1 for _ in self.local_times(low, high))

    def _counted(self, low: int) -> Iterator[int]:
        every = _all_of(self.rule, self.start)
        return iter(every[bisect_left(every, low) :])

    def _expanded(self, low: int) -> Iterator[int]:
        low = max(low, on_wall(self.start))
        try:
            period = period_before(self.rule, self.start, low)
        except OverflowError:
            return
        start = max(period, self.start)  # BYSETPOS chooses among what is left of the first week
        for local in _bounded(expansion(self.rule, self.start, start)):
            if local >= low:
                yield local


def expansion(rule: Rule, start: datetime, moved: datetime) -> rrule.rrule:
    """dateutil's rule from ``moved`` on, with what the start implies said. Raises ValueError if the parts contradict
    each other.
    """
    said = {name.lower(): list(values) for name, values in rule.numbers}
    by_days = [rrule.weekday(day.day, day.nth or None) for day in rule.weekdays]
    chooses_day = bool(by_days or {"byyearday", "bymonthday", "byweekno"} & said.keys())
    if rule.freq == "YEARLY" and not chooses_day:
        said.setdefault("bymonth", [start.month])
    if rule.freq in ("YEARLY", "MONTHLY") and not chooses_day:
        said["bymonthday"] = [start.day]
    if rule.freq == "WEEKLY" and not by_days:
        by_days = [rrule.weekday(start.weekday())]
    if rule.freq not in ("HOURLY", "MINUTELY"):
        said.setdefault("byhour", [start.hour])
    if rule.freq != "MINUTELY":
        said.setdefault("byminute", [start.minute])
    said.setdefault("bysecond", [start.second])
    options: dict[str, Any] = dict(said)
    return rrule.rrule(
        getattr(rrule, rule.freq),
        dtstart=moved,
        interval=rule.interval,
        wkst=rule.week_start,
        count=rule.count,
        until=rule.until,
        byweekday=by_days or None,
        **options,
    )


def period_before(rule: Rule, start: datetime, low: int) -> datetime:
    """The start of the last period in step with the rule that begins at or before ``low``; never before that of the
    start.
    """
    asked = max(_WALL_EPOCH + low * _SECOND, start)
    if rule.freq == "YEARLY":
        year = asked.year - (asked.year - start.year) % rule.interval
        return datetime(year, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    if rule.freq == "MONTHLY":
        month = asked.year * 12 + asked.month - 1
        month -= (month - start.year * 12 - start.month + 1) % rule.interval
        return datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC).replace(tzinfo=None)
    period_s = _PERIOD_S[rule.freq]
    first = on_wall(start) // period_s * period_s
    if rule.freq == "WEEKLY":
        first = (on_wall(start) // DAY - (start.weekday() - rule.week_start) % 7) * DAY
    begun = on_wall(asked) - (on_wall(asked) - first) % (period_s * rule.interval)
    return _WALL_EPOCH + begun * _SECOND


def on_wall(moment: datetime) -> int:
    """A naive local time in whole seconds since 1970-01-01T00:00 on the wall."""
    return (moment - _WALL_EPOCH) // _SECOND


@lru_cache(maxsize=256)
def _all_of(rule: Rule, start: datetime) -> tuple[int, ...]:
    return tuple(_bounded(expansion(rule, start, start)))


def _bounded(expanded: rrule.rrule) -> Iterator[int]:
    """A rule's local times until a search among days fails.

    dateutil asks BYMONTH first, then BYDAY. One of them is made to count; where the rule has none, all months or all
    days stand in. Not all months beside an n-th BYDAY: they would make it the n-th of each month.
    """
    inside = vars(expanded)
    if inside["_bynweekday"] and not inside["_bymonth"]:
        counting = inside["_byweekday"] = _Counting(inside["_byweekday"] or range(7))
    else:
        counting = inside["_bymonth"] = _Counting(inside["_bymonth"] or range(1, 13))
    try:
        for moment in expanded:
            counting.asked = 0
            yield on_wall(moment)
    except _NoMatch:
        return
