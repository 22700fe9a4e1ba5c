"""Which days a cron expression admits, as one mask for every form a month can take.

A month's days depend on its length (28 to 31) and on the weekday of its first (Monday 0 … Sunday 6) alone: 28 masks
hold every month of every year. Bit ``d`` of a mask stands for day ``d``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

EVERY_WEEK = sum(1 << day for day in range(1, 36, 7))  # days 1, 8, 15, 22, 29
LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class DayMatch(StrEnum):
    """What two day fields that are both set demand."""

    OR = "or"  # either (Vixie)
    AND = "and"  # both (Celery)


@dataclass(frozen=True, slots=True)
class DayRule:
    """The two day fields, read. A field that starts with ``*`` is *open*: it does not count as set. Weekdays from
    Sunday = 0.
    """

    days: int
    last_day: bool
    last_workday: bool
    days_open: bool
    weekdays: int
    last_weekdays: int
    nth_weekdays: tuple[int, ...]  # five masks: the first such day of a month, the second, …
    weekdays_open: bool


@lru_cache(maxsize=1024)
def month_days(rule: DayRule, match: DayMatch) -> tuple[int, ...]:
    """The admitted days by ``form(length, first)``."""
    both = match is DayMatch.AND or rule.days_open or rule.weekdays_open
    masks = []
    for length in range(28, 32):
        for first in range(7):
            by_date, by_weekday = _by_date(rule, length, first), _by_weekday(rule, length, first)
            masks.append(by_date & by_weekday if both else by_date | by_weekday)
    return tuple(masks)


def form(length: int, first: int) -> int:
    """Where ``month_days`` holds a month of this length whose first is this weekday (Monday 0)."""
    return (length - 28) * 7 + first


def forms_of(month: int) -> range:
    """The forms that a month of the year takes: any weekday can be its first, and February has two lengths."""
    longest = longest_of(month)
    return range(form(LENGTHS[month], 0), form(longest, 6) + 1)


def longest_of(month: int) -> int:
    return 29 if month == 2 else LENGTHS[month]


def waits(rule: DayRule, months: int) -> tuple[int, ...] | None:
    """Days to wait from each weekday (Monday 0) to an admitted one, if weekdays alone decide: the common case, made
    quick.
    """
    every_date = rule.days & 0xFFFF_FFFE == 0xFFFF_FFFE
    plain = rule.weekdays and not rule.last_weekdays and not any(rule.nth_weekdays)
    if not (rule.days_open and every_date and plain and months == 0x1FFE):
        return None
    from_monday = rule.weekdays >> 1 | (rule.weekdays & 1) << 6
    twice = from_monday | from_monday << 7
    return tuple(((twice >> day) & -(twice >> day)).bit_length() - 1 for day in range(7))


def _by_date(rule: DayRule, length: int, first: int) -> int:
    days = rule.days
    if rule.last_day:
        days |= 1 << length
    if rule.last_workday:
        days |= 1 << length - max(0, (first + length - 1) % 7 - 4)
    return days & (2 << length) - 1


def _by_weekday(rule: DayRule, length: int, first: int) -> int:
    days = 0
    for weekday in range(7):
        ahead = (weekday - 1 - first) % 7  # days from the first to the first such weekday
        if rule.weekdays >> weekday & 1:
            days |= EVERY_WEEK << ahead
        for nth, weekdays in enumerate(rule.nth_weekdays):
            if weekdays >> weekday & 1:
                days |= 1 << 1 + ahead + 7 * nth
        if rule.last_weekdays >> weekday & 1:
            days |= 1 << 1 + ahead + (length - 1 - ahead) // 7 * 7
    return days & (2 << length) - 1
