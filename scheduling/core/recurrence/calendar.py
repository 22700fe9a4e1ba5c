"""Calendars of closed times, and the bounds of a schedule.

A calendar takes nothing from a schedule: an occurrence in a closed time stays one, and is skipped with the reason
``excluded``, so that history shows it. Bounds do take: before ``start_at`` and after ``end_at`` there is nothing.

``max_runs`` is not here: whether an occurrence ran is known to the store alone, which carries its ordinal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence.schedule import Schedule, utc
from scheduling.core.recurrence.zones import zone

EVERY_DAY = frozenset(range(1, 8))
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ClosedHours:
    """From ``begins`` to before ``ends`` on the wall, for days that begin on these weekdays (ISO: Monday 1).

    Over midnight where ``ends`` is not later than ``begins``: Friday's 22:00 to 06:00 ends on Saturday. Raises
    InvalidField (``weekdays``).
    """

    begins: time
    ends: time
    weekdays: frozenset[int] = EVERY_DAY

    def __post_init__(self) -> None:
        if not self.weekdays <= EVERY_DAY or not self.weekdays:
            raise InvalidField("weekdays", sorted(self.weekdays), "are not ISO weekdays, 1 (Monday) to 7")

    def covers(self, local: datetime) -> bool:
        now, today = local.time(), local.isoweekday()
        if self.begins < self.ends:
            return today in self.weekdays and self.begins <= now < self.ends
        yesterday = (today - 2) % 7 + 1
        return (today in self.weekdays and now >= self.begins) or (yesterday in self.weekdays and now < self.ends)


@dataclass(frozen=True, slots=True)
class Calendar:
    """Days and hours at which nothing is to run, on the wall of one zone. Raises InvalidField (``tz``)."""

    days: frozenset[date] = frozenset()
    hours: tuple[ClosedHours, ...] = ()
    tz: str = "UTC"
    zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "zone", zone(self.tz))

    def excludes(self, moment: datetime) -> bool:
        """Whether an occurrence at this aware moment is to be skipped."""
        local = moment.astimezone(self.zone)
        return local.date() in self.days or any(closed.covers(local) for closed in self.hours)


@dataclass(frozen=True, slots=True)
class Bounded:
    """A schedule from ``start_at`` to ``end_at``, both included, either open. Raises InvalidField (``start_at``,
    ``end_at``).
    """

    schedule: Schedule
    start_at: datetime | None = None
    end_at: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("start_at", "end_at"):
            said = getattr(self, name)
            object.__setattr__(self, name, None if said is None else utc(name, said))
        if self.start_at is not None and self.end_at is not None and self.end_at < self.start_at:
            raise InvalidField("end_at", self.end_at, f"is before start_at ({self.start_at})")

    def next_after(self, moment: datetime) -> datetime | None:
        moment = utc("moment", moment)
        if self.start_at is not None:
            moment = max(moment, self.start_at - _INSTANT)
        found = self.schedule.next_after(moment)
        return None if found is None or (self.end_at is not None and found > self.end_at) else found
