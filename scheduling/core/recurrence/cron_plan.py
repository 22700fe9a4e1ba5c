"""A cron expression compiled for one zone: from any instant to the next, by bit arithmetic.

Two steps. *On the wall* (``first_on_wall``): the smallest local time, at or after a given one, that the fields admit.
Seconds, minutes, hours and months are masks; which days a month has depends on its length and its first weekday
alone, so 28 masks hold every month of every year. *Onto the line* (``next_after``): in each segment of the zone local
time and UTC run alike; what lies in a gap or in a fold is decided where segments meet.

Days without any match are skipped, however many years: the search goes on where the wall has the next match. An
expression that matches no day in any of the months is refused, so every search ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import lru_cache

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence.cron_fields import Fields, parse
from scheduling.core.recurrence.zones import DAY, Segment, segment_at

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LONGEST_JUMP = 2 * DAY  # more than any change of offset
_LAST_INSTANT = (date(9999, 12, 30).toordinal() - _EPOCH_ORDINAL) * DAY
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class DayMatch(StrEnum):
    """What two day fields that are both set demand."""

    OR = "or"  # either (Vixie)
    AND = "and"  # both (Celery)


class Gap(StrEnum):
    """What becomes of a wall-clock time that the wall skips."""

    FIRST_VALID = "first_valid"  # at the first instant after the gap
    SHIFT = "shift"  # later by the length of the gap
    SKIP = "skip"


class Fold(StrEnum):
    """What becomes of a wall-clock time that the wall shows twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A compiled expression; compared by identity, one for all the jobs that say the same (see ``compiled``)."""

    seconds: int
    minutes: int
    hours: int
    months: int
    month_days: tuple[int, ...]  # by (length - 28) * 7 + first weekday (Monday 0): bit d for day d
    wall_clock: bool  # else elapsed
    gap: Gap
    fold: Fold
    tz: str

    def next_after(self, instant: int) -> int | None:
        """The first occurrence after an instant; both in whole seconds since the Unix epoch. None after the year
        9999.
        """
        start = instant + 1
        while start < _LAST_INSTANT:
            segment = segment_at(self.tz, start)
            found = self._first_in(segment, start)
            if found is not None:
                return found
            near = self.first_on_wall(segment.end + segment.offset - _LONGEST_JUMP)
            if near is None:
                return None
            start = max(segment.end, near - segment.offset - _LONGEST_JUMP)
        return None

    def _first_in(self, segment: Segment, start: int) -> int | None:
        """The first occurrence at or after ``start`` in the segment that holds it."""
        offset, low, high = segment.offset, start + segment.offset, segment.end + segment.offset
        if not self.wall_clock:
            local = self.first_on_wall(low)
            return local - offset if local is not None and local < high else None
        if self.fold is Fold.FIRST and segment.before > offset:
            low = max(low, segment.start + segment.before)
        if self.fold is Fold.SECOND and segment.after < offset:
            high = segment.end + segment.after
        skipped = self._out_of_gap(segment, start) if segment.before < offset else None
        local = self.first_on_wall(low)
        if local is None or local >= high:
            return skipped
        return local - offset if skipped is None else min(skipped, local - offset)

    def _out_of_gap(self, segment: Segment, start: int) -> int | None:
        """When a local time in the gap before ``segment`` fires in it, at or after ``start``."""
        opens, closes = segment.start + segment.before, segment.start + segment.offset
        if self.gap is Gap.SHIFT:
            local = self.first_on_wall(start + segment.before)
            return local - segment.before if local is not None and local < closes else None
        if self.gap is Gap.FIRST_VALID and start == segment.start:
            local = self.first_on_wall(opens)
            return start if local is not None and local < closes else None
        return None

    def first_on_wall(self, local: int) -> int | None:
        """The smallest admitted local time at or after ``local``; None after the year 9999."""
        today, second = divmod(local, DAY)
        day = self._first_day(today)
        if day == today:
            time = self._first_time(second)
            if time is not None:
                return day * DAY + time
            day = self._first_day(today + 1)
        if day is None:
            return None
        return day * DAY + (_lowest(self.hours) * 60 + _lowest(self.minutes)) * 60 + _lowest(self.seconds)

    def _first_time(self, second: int) -> int | None:
        """The smallest admitted second of a day at or after ``second``."""
        hour, rest = divmod(second, 3600)
        if self.hours >> hour & 1:
            minute, rest = divmod(rest, 60)
            if self.minutes >> minute & 1:
                left = self.seconds >> rest
                if left:
                    return second + _lowest(left)
                minute += 1
            left = self.minutes >> minute
            if left:
                return (hour * 60 + minute + _lowest(left)) * 60 + _lowest(self.seconds)
            hour += 1
        left = self.hours >> hour
        if left:
            return ((hour + _lowest(left)) * 60 + _lowest(self.minutes)) * 60 + _lowest(self.seconds)
        return None

    def _first_day(self, day: int) -> int | None:
        """The smallest admitted day (0 is 1970-01-01) at or after ``day``."""
        try:
            today = date.fromordinal(day + _EPOCH_ORDINAL)
        except (ValueError, OverflowError):
            return None
        year, month, from_day = today.year, today.month, today.day
        first = day - from_day + 1
        while year <= 9999:
            length = 29 if month == 2 and _leap(year) else _LENGTHS[month]
            if self.months >> month & 1:
                left = self.month_days[(length - 28) * 7 + (first + 3) % 7] >> from_day
                if left:
                    return first + from_day - 1 + _lowest(left)
            first, from_day, month = first + length, 1, month + 1
            if month == 13:
                month, year = 1, year + 1
        return None


@lru_cache(maxsize=8192)
def compiled(expression: str, key: str, day_match: DayMatch, gap: Gap, fold: Fold, tz: str) -> Plan:
    """The plan of an expression, shared by all that ask for the same. Raises InvalidField (``cron``)."""
    fields = parse(expression, key)
    month_days = tuple(
        _days_of_month(fields, day_match, length, first) for length in range(28, 32) for first in range(7)
    )
    if not any(month_days[shape] for month in range(1, 13) if fields.months >> month & 1 for shape in _shapes(month)):
        raise InvalidField("cron", expression, _never(fields))
    return Plan(
        seconds=fields.seconds,
        minutes=fields.minutes,
        hours=fields.hours,
        months=fields.months,
        month_days=month_days,
        wall_clock=not fields.elapsed,
        gap=gap,
        fold=fold,
        tz=tz,
    )


def _days_of_month(fields: Fields, day_match: DayMatch, length: int, first: int) -> int:
    """The admitted days of a month with this length and first weekday (Monday 0)."""
    both = day_match is DayMatch.AND or fields.days_open or fields.weekdays_open
    days = 0
    for day in range(1, length + 1):
        weekday = (first + day) % 7  # Sunday 0: Monday 0 for the first is 1 here
        bit = 1 << weekday
        nth = fields.nth_weekdays[(day - 1) // 7] | fields.weekdays | (fields.last_weekdays if day + 7 > length else 0)
        by_date = bool(
            fields.days >> day & 1
            or (fields.last_day and day == length)
            or (fields.last_workday and day == _last_workday(length, first))
        )
        by_weekday = bool(nth & bit)
        if (by_date and by_weekday) if both else (by_date or by_weekday):
            days |= 1 << day
    return days


def _last_workday(length: int, first: int) -> int:
    """The last day of Monday to Friday in a month."""
    last = (first + length - 1) % 7
    return length - max(0, last - 4)


def _shapes(month: int) -> range:
    """Where ``month_days`` holds the forms that this month takes: every weekday can be its first."""
    longest = 29 if month == 2 else _LENGTHS[month]
    return range((_LENGTHS[month] - 28) * 7, (longest - 28) * 7 + 7)


def _never(fields: Fields) -> str:
    by_date = any(fields.days >> day & 1 for day in range(1, 32)) and not fields.last_day
    longest = max(29 if month == 2 else _LENGTHS[month] for month in range(1, 13) if fields.months >> month & 1)
    if by_date and not fields.days & (2 << longest) - 1:
        return f"never fires: no month of these has a day {_lowest(fields.days)}"
    return "never fires: the day fields never meet in these months"


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _lowest(mask: int) -> int:
    """The lowest set bit."""
    return (mask & -mask).bit_length() - 1
