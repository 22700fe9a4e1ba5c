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
    """The first occurrence after ``now`` (job time). A single instant that has passed is due now, and not lost."""
    shard = shard_of(job_id, shards)
    inner = schedule.schedule if isinstance(schedule, Bounded) else schedule
    at = schedule.next_after(min(now, inner.at - MICROSECOND) if isinstance(inner, Once) else now)
    if at is None:
        return First(shard, None, None)
    return First(shard, at, jittered(job_id, at, jitter, schedule.next_after(at) if jitter else None))
