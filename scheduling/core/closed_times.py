"""Closed hours as a calendar's row stores them: ``[{"begins": "22:00", "ends": "06:00", "weekdays": [5]}]``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, time
from typing import Any

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Calendar, ClosedHours
from scheduling.core.recurrence.calendar import EVERY_DAY

_KEYS = {"begins", "ends", "weekdays"}


@dataclass(frozen=True, slots=True)
class CalendarFields:
    """A calendar as its row stores it; ``build()`` gives the calendar itself, and refuses an impossible one."""

    tz: str
    days: tuple[date, ...]
    hours: Any

    def build(self) -> Calendar:
        """Raises InvalidField (``calendar``)."""
        try:
            return calendar_of(self.tz, self.days, self.hours)
        except InvalidField as problem:
            raise InvalidField("calendar", problem.value, f"{problem.field}: {problem.problem}") from problem


def calendar_of(tz: str, days: Iterable[date], hours: Any) -> Calendar:
    """Weekdays are ISO's, 1 (Monday) to 7; without them the hours are closed every day.

    Raises InvalidField (``tz``, ``days``, ``hours``, ``weekdays``).
    """
    if not isinstance(hours, list):
        raise InvalidField("hours", hours, "is not a list")
    for day in days:
        if type(day) is not date:
            raise InvalidField("days", day, "is not a date")
    return Calendar(frozenset(days), tuple(_closed(entry) for entry in hours), tz)


def _closed(entry: Any) -> ClosedHours:
    if not isinstance(entry, dict) or not {"begins", "ends"} <= entry.keys() <= _KEYS:
        raise InvalidField("hours", entry, 'is not like {"begins": "22:00", "ends": "06:00", "weekdays": [5, 6]}')
    weekdays = entry.get("weekdays", sorted(EVERY_DAY))
    if not isinstance(weekdays, list) or not all(type(day) is int for day in weekdays):
        raise InvalidField("weekdays", weekdays, "is not a list of whole numbers, 1 (Monday) to 7")
    return ClosedHours(_time(entry["begins"]), _time(entry["ends"]), frozenset(weekdays))


def _time(text: Any) -> time:
    try:
        return time.fromisoformat(text)
    except (TypeError, ValueError):
        raise InvalidField("hours", text, "is not a time such as 22:00") from None
