"""What an edit of a schedule does to the occurrences around it.

An edit creates no occurrence before itself, and loses none that the new schedule still has: a 09:00 that fires at
09:07 with jitter, and is edited at 09:05, still fires. What the old schedule alone had, and nobody claimed yet, is
skipped as superseded.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduling.core.recurrence.backlog import Rest, backlog
from scheduling.core.recurrence.schedule import Schedule, utc

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Edit:
    """The old schedule's occurrences up to the edit that have no row yet, and where the new one begins."""

    kept: tuple[datetime, ...]  # the new schedule has them too
    superseded: tuple[datetime, ...]
    counted: Rest | None  # superseded as well, too many for a row each
    next_scheduled_for: datetime | None


def edit(old: Schedule, new: Schedule, *, after: datetime, edited_at: datetime, keep: int) -> Edit:
    """Replace ``old`` by ``new``. ``after`` is the last instant up to which occurrences have rows; ``keep`` bounds
    the rows.

    Raises InvalidField, naming the moment, if one has no time zone.
    """
    edited_at = utc("edited_at", edited_at)
    waiting = backlog(old, after=after, until=edited_at, late_until=edited_at, keep=keep)
    kept = tuple(moment for moment in waiting.listed if has(new, moment))
    superseded = tuple(moment for moment in waiting.listed if moment not in kept)
    return Edit(kept, superseded, waiting.counted, new.next_after(edited_at))


def has(schedule: Schedule, moment: datetime) -> bool:
    """Whether a schedule has an occurrence at this very moment."""
    return schedule.next_after(moment - _INSTANT) == moment
