"""A cron expression compiled: which local times it admits, and its timeline.

Minutes of a day are an array, seconds of a minute a tuple, the days of a month a mask by the form of the month. An
expression that matches no day in any of its months is refused, so that every search ends: 29 February on a Monday is
at most 40 years away.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence.cron_days import (
    LENGTHS,
    DayMatch,
    DayRule,
    form,
    forms_of,
    longest_of,
    month_days,
    waits,
)
from scheduling.core.recurrence.cron_fields import Fields, parse
from scheduling.core.recurrence.timeline import LONGEST_BLOCK_BITS, Fold, Gap, Timeline
from scheduling.core.recurrence.zones import DAY, zone

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_BLOCK_HOLDS = 32


@dataclass(frozen=True, slots=True)
class CronWall:
    """The local times that an expression admits."""

    seconds: tuple[int, ...]  # admitted in a minute
    minutes: Sequence[int]  # admitted in a day
    months: int
    days: tuple[int, ...]  # of a month, by its form
    waits: tuple[int, ...] | None  # days to wait from each weekday, where weekdays alone decide

    def local_times(self, low: int, high: int) -> Iterator[int]:
        """The admitted local times in [``low``, ``high``), in order."""
        today, second = divmod(low, DAY)
        day = self._first_day(today)
        place = bisect_left(self.minutes, second // 60) if day == today else 0
        while day is not None:
            midnight = day * DAY
            for minute in self.minutes[place:] if place else self.minutes:
                start = midnight + minute * 60
                if start >= high:
                    return
                for second in self.seconds:
                    if low <= start + second < high:
                        yield start + second
            place, day = 0, self._first_day(day + 1)

    def count(self, low: int, high: int) -> int:
        """How many there are in [``low``, ``high``): whole days at once."""
        if low >= high:
            return 0
        total = self._times_before(high) - self._times_before(low)
        day, last = self._first_day(low // DAY), high // DAY
        while day is not None and day < last:
            total += len(self.minutes) * len(self.seconds)
            day = self._first_day(day + 1)
        return total

    def _times_before(self, local: int) -> int:
        """How many times there are on its own day before a local time."""
        day, second = divmod(local, DAY)
        if self._first_day(day) != day:
            return 0
        minute, second = divmod(second, 60)
        place = bisect_left(self.minutes, minute)
        within = bisect_left(self.seconds, second) if place < len(self.minutes) and self.minutes[place] == minute else 0
        return place * len(self.seconds) + within

    def _first_day(self, day: int) -> int | None:
        """The smallest admitted day (0 is 1970-01-01) at or after ``day``."""
        if self.waits is not None:
            return day + self.waits[(day + 3) % 7]
        try:
            today = date.fromordinal(day + _EPOCH_ORDINAL)
        except (ValueError, OverflowError):
            return None
        year, month, from_day = today.year, today.month, today.day
        first = day - from_day + 1
        while year <= 9999:
            length = 29 if month == 2 and isleap(year) else LENGTHS[month]
            if self.months >> month & 1:
                left = self.days[form(length, (first + 3) % 7)] >> from_day
                if left:
                    return first + from_day - 1 + lowest(left)
            first, from_day, month = first + length, 1, month + 1
            if month == 13:
                month, year = 1, year + 1
        return None


@lru_cache(maxsize=8192)
def compiled(expression: str, key: str, day_match: DayMatch, gap: Gap, fold: Fold, tz: str) -> Timeline:
    """The timeline of an expression, shared by all that say the same. Raises InvalidField (``cron``, ``tz``)."""
    zone(tz)
    fields = parse(expression, key)
    days = month_days(fields.day_rule, day_match)
    months = [month for month in range(1, 13) if fields.months >> month & 1]
    if not any(days[shape] for month in months for shape in forms_of(month)):
        raise InvalidField("cron", expression, _never(fields.day_rule, months))
    return _timeline(fields, days, gap, fold, tz)


@lru_cache(maxsize=8192)
def _timeline(fields: Fields, days: tuple[int, ...], gap: Gap, fold: Fold, tz: str) -> Timeline:
    """Of what was read, so that jobs that were spread to the same times share it, and its occurrences."""
    wall = CronWall(
        seconds=_values(fields.seconds),
        minutes=_minutes_of_day(fields.hours, fields.minutes),
        months=fields.months,
        days=days,
        waits=waits(fields.day_rule, fields.months),
    )
    return Timeline(wall, tz, not fields.elapsed, gap, fold, _block_bits(fields, days))


@lru_cache(maxsize=8192)
def is_hashed(expression: str) -> bool:
    """Whether an item starts with ``H``."""
    return re.search(r"(?:^|[\s,])[Hh]", expression) is not None


@lru_cache(maxsize=1024)
def _minutes_of_day(hours: int, minutes: int) -> Sequence[int]:
    """In an array: two bytes each, and few distinct ones are asked for."""
    return array("H", (hour * 60 + minute for hour in _values(hours) for minute in _values(minutes)))


def _values(mask: int) -> tuple[int, ...]:
    return tuple(value for value in range(mask.bit_length()) if mask >> value & 1)


def _block_bits(fields: Fields, days: tuple[int, ...]) -> int:
    """The longest block that never holds many occurrences: 32, or the 60 of a minute. At most a year."""
    in_minute = fields.seconds.bit_count()
    in_hour = in_minute * fields.minutes.bit_count()
    in_day = in_hour * fields.hours.bit_count()
    in_month = in_day * max(mask.bit_count() for mask in days)
    # a block of 2^6 s is about a minute, 2^12 an hour, 2^17 a day and a half, 2^21 most of a month
    bits, most = next(
        (bits, most) for bits, most in ((21, in_month), (17, 2 * in_day), (12, in_hour), (6, 1)) if most <= _BLOCK_HOLDS
    )
    return min(bits + (_BLOCK_HOLDS // most).bit_length() - 1, LONGEST_BLOCK_BITS) if bits > 6 else bits


def _never(rule: DayRule, months: list[int]) -> str:
    if rule.days and not rule.last_day and lowest(rule.days) > max(map(longest_of, months)):
        return f"never fires: no month of these has a day {lowest(rule.days)}"
    return "never fires: the two day fields never meet in these months"


def lowest(mask: int) -> int:
    """The lowest set bit."""
    return (mask & -mask).bit_length() - 1
