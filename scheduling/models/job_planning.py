"""Where a new job starts: its shard, and its first occurrence."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.conf import settings

from scheduling.conf import scheduling_settings
from scheduling.core.clock import MICROSECOND
from scheduling.core.identity import shard_of
from scheduling.core.jitter import jittered
from scheduling.core.recurrence import Bounded, Once, Schedule


class First(NamedTuple):
    shard: int
    scheduled_for: datetime | None
    fire_at: datetime | None


def shard_count() -> int:
    return scheduling_settings(settings).SHARDS


def first_occurrence(schedule: Schedule, job_id: UUID, jitter: timedelta, *, now: datetime, shards: int) -> First:
    """The first occurrence after ``now`` (job time)."""
    shard = shard_of(job_id, shards)
    at = first_instant(schedule, now=now)
    return First(shard, at, None if at is None else first_fire(schedule, job_id, jitter, at))


def first_instant(schedule: Schedule, *, now: datetime) -> datetime | None:
    """A single instant that has passed is due now, and not lost."""
    inner = schedule.schedule if isinstance(schedule, Bounded) else schedule
    return schedule.next_after(min(now, inner.at - MICROSECOND) if isinstance(inner, Once) else now)


def first_fire(schedule: Schedule, job_id: UUID, jitter: timedelta, at: datetime) -> datetime:
    return jittered(job_id, at, jitter, schedule.next_after(at)) if jitter else at
