"""What a schedule will do next, for people: each occurrence in UTC and on the clock of its zone, with marks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from uuid import UUID
from zoneinfo import ZoneInfo

from scheduling.core.clock import EPOCH
from scheduling.core.errors import InvalidField
from scheduling.core.jitter import jittered
from scheduling.core.recurrence.calendar import Calendar
from scheduling.core.recurrence.nominal import nominal_times, walled
from scheduling.core.recurrence.schedule import Schedule, utc
from scheduling.core.recurrence.zones import segment_at, zone

MOST = 1_000
_SECOND = timedelta(seconds=1)


class Mark(StrEnum):
    """What is odd about an occurrence."""

    GAP = "gap"  # stands for local times that the zone skips
    FOLD = "fold"  # its local time is shown twice
    EXCLUDED = "excluded"  # closed in the job's calendar: will be skipped
    JITTERED = "jittered"  # fires later than its nominal time


@dataclass(frozen=True, slots=True)
class Jitter:
    """What ``fire_at`` depends on, beside the occurrences."""

    job_id: UUID
    most: timedelta


@dataclass(frozen=True, slots=True)
class Preview:
    """One occurrence. ``nominal`` are the skipped local times that it stands for (mark ``gap``), as naive wall-clock
    times.
    """

    utc: datetime
    local: datetime
    fire_at: datetime
    marks: tuple[Mark, ...]
    nominal: tuple[datetime, ...] = ()

    def as_json(self) -> dict[str, object]:
        """``utc``, ``local`` with its offset, ``marks``; ``fire_at`` and ``nominal`` where they say more."""
        shown: dict[str, object] = {
            "utc": self.utc.isoformat().replace("+00:00", "Z"),
            "local": self.local.isoformat(),
            "marks": [str(mark) for mark in self.marks],
        }
        if self.fire_at != self.utc:
            shown["fire_at"] = self.fire_at.isoformat().replace("+00:00", "Z")
        if self.nominal:
            shown["nominal"] = [moment.isoformat() for moment in self.nominal]
        return shown


def preview(
    schedule: Schedule,
    *,
    after: datetime,
    count: int,
    tz: str = "UTC",
    calendar: Calendar | None = None,
    jitter: Jitter | None = None,
) -> list[Preview]:
    """The next ``count`` occurrences strictly after a moment, fewer where the schedule ends.

    ``tz`` is the zone to show those in that have none of their own (once, interval). Raises InvalidField (``count``,
    ``tz``, ``after``).
    """
    if not 0 < count <= MOST:
        raise InvalidField("count", count, f"is not in 1-{MOST}")
    wall = walled(schedule)
    here = zone(wall.tz if wall else tz)
    entries = []
    for moment, following in islice(_with_next(schedule, utc("after", after)), count):
        nominal = nominal_times(schedule, moment)
        local = _local(moment, here)
        fire_at = moment if jitter is None else jittered(jitter.job_id, moment, jitter.most, following)
        marks = {
            Mark.GAP: bool(nominal),
            Mark.FOLD: _is_folded(here.key, moment),
            Mark.EXCLUDED: calendar is not None and calendar.excludes(moment),
            Mark.JITTERED: fire_at != moment,
        }
        entries.append(Preview(moment, local, fire_at, tuple(mark for mark, holds in marks.items() if holds), nominal))
    return entries


def _with_next(schedule: Schedule, after: datetime) -> Iterator[tuple[datetime, datetime | None]]:
    moment = schedule.next_after(after)
    while moment is not None:
        following = schedule.next_after(moment)
        yield moment, following
        moment = following


def _local(moment: datetime, here: ZoneInfo) -> datetime:
    try:
        return moment.astimezone(here)
    except OverflowError:
        raise InvalidField("tz", here.key, f"shows {moment:%Y-%m-%d %H:%M} UTC outside the years 1 to 9999") from None


def _is_folded(tz: str, moment: datetime) -> bool:
    """Whether the zone's clock shows this local time twice."""
    instant = (moment - EPOCH) // _SECOND
    segment = segment_at(tz, instant)
    return (
        instant < segment.start + segment.before - segment.offset
        or instant >= segment.end + segment.after - segment.offset
    )
