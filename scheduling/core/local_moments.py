"""Moments as people write them for a job: a day or a time on the wall of the job's zone, or an instant with its offset.

A local time that the zone's clock shows twice is the first of the two; one that it skips is as long after the gap's
start as it is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta

from scheduling.core.clock import MICROSECOND
from scheduling.core.errors import InvalidField
from scheduling.core.recurrence.schedule import utc
from scheduling.core.recurrence.zones import zone


def read_start(field: str, text: str, tz: str) -> datetime:
    """``2026-03-08``, from the beginning of that day on; ``2026-03-08T09:00``; ``2026-03-08T09:00Z``. In UTC.

    Raises InvalidField, naming ``field``; or ``tz``.
    """
    moment = _read(field, text)
    return _on_the_wall(field, datetime.combine(moment, time()) if type(moment) is date else moment, tz)


def read_end(field: str, text: str, tz: str) -> datetime:
    """As ``read_start``; a day is meant to its end."""
    moment = _read(field, text)
    if type(moment) is not date:
        return _on_the_wall(field, moment, tz)
    try:
        following = datetime.combine(moment + timedelta(days=1), time())
    except OverflowError:
        raise InvalidField(field, text, "lies outside the years 1 to 9999") from None
    return _on_the_wall(field, following, tz) - MICROSECOND


def read_shared(field: str, text: str, zones: Iterable[str]) -> datetime:
    """As ``read_start``, for jobs of these zones: what is written must be the same moment in all of them.

    Raises InvalidField, naming ``field``.
    """
    moments = {read_start(field, text, tz) for tz in zones} or {read_start(field, text, "UTC")}
    if len(moments) > 1:
        raise InvalidField(field, text, "is read in the zone of the job, and these jobs have several; give its offset")
    return moments.pop()


def _read(field: str, text: str) -> date:
    """A date, or its subclass datetime."""
    try:
        return date.fromisoformat(text)
    except (TypeError, ValueError):
        pass  # then it must be a moment
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        problem = "is not a day such as 2026-03-08, nor a time such as 2026-03-08T09:00 or 2026-03-08T09:00Z"
        raise InvalidField(field, text, problem) from None


def _on_the_wall(field: str, moment: date, tz: str) -> datetime:
    assert isinstance(moment, datetime)
    return utc(field, moment if moment.utcoffset() is not None else moment.replace(tzinfo=zone(tz))).astimezone(UTC)
