"""What every schedule can do, and the walk over its occurrences.

Invariants: moments are aware and leave in UTC; ``next_after`` is strictly after, so that a walk never repeats one; a
schedule is a value, equal to and hashed with its like. Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol, TypeVar

from scheduling.core.errors import InvalidField

Option = TypeVar("Option", bound=StrEnum)


class Schedule(Protocol):
    """A set of instants that can be walked forward."""

    def next_after(self, moment: datetime) -> datetime | None:
        """The first occurrence strictly after ``moment``, aware UTC; None if there is none any more.

        Raises InvalidField (field ``moment``) if ``moment`` has no time zone.
        """


def utc(field: str, moment: datetime) -> datetime:
    """``moment`` in UTC. Raises InvalidField, naming ``field``, if it is not a datetime with a time zone."""
    if not isinstance(moment, datetime):
        raise InvalidField(field, moment, "is not a datetime")
    if moment.tzinfo is UTC:
        return moment
    if moment.utcoffset() is None:
        raise InvalidField(field, moment, "has no time zone; give an aware datetime")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidField(field, moment, "lies outside the years 1 to 9999 in UTC") from None


def option(field: str, kind: type[Option], value: str) -> Option:
    """The member of an enum that a text names. Raises InvalidField, naming ``field``."""
    if type(value) is kind:
        return value
    try:
        return kind(value)
    except ValueError:
        raise InvalidField(field, value, f"is not one of {', '.join(kind)}") from None


def occurrences(schedule: Schedule, *, after: datetime, until: datetime) -> Iterator[datetime]:
    """The occurrences in (``after``, ``until``], one by one as they are asked for.

    Raises InvalidField (field ``after`` or ``until``), at once, if either has no time zone.
    """
    return _walk(schedule, utc("after", after), utc("until", until))


def _walk(schedule: Schedule, after: datetime, until: datetime) -> Iterator[datetime]:
    moment = schedule.next_after(after)
    while moment is not None and moment <= until:
        yield moment
        moment = schedule.next_after(moment)
