"""Rows of ``schedule.sql`` as values of the core."""

from __future__ import annotations

import json
from typing import Any

from scheduling.core.definition import Kind, ScheduleFields
from scheduling.core.fire import Fire, Lane, MisfirePolicy, OverlapPolicy, Work
from scheduling.core.message import canonical_json
from scheduling.core.planning import DueJob

WORK = 18  # columns of the statement ``work``
SHARD = 1
TENANT_ID = 2
FIRE_AT = WORK + 2  # of a fire
NEXT_FIRE_AT = WORK + 10  # of a due job


def work_of(row: tuple[Any, ...]) -> Work:
    (
        job_id, shard, tenant_id, tenant, history_days, name, task, lane, args, kwargs, soft_timeout_s, hard_timeout_s,
        overlap, buffer_limit, misfire, misfire_grace_s, catch_up_limit, catch_up_window,
    ) = row[:WORK]  # fmt: skip
    return Work(
        job_id, shard, tenant_id, tenant, history_days, name, task, Lane(lane), _ascii(args), _ascii(kwargs),
        soft_timeout_s, hard_timeout_s, OverlapPolicy(overlap), buffer_limit, MisfirePolicy(misfire), misfire_grace_s,
        catch_up_limit, catch_up_window,
    )  # fmt: skip


def due_job_of(row: tuple[Any, ...]) -> DueJob:
    kind, at, every, anchor, cron, tz, jitter, version, changed_at, next_scheduled_for, _ = row[WORK:]
    schedule = ScheduleFields(kind=Kind(kind), at=at, every=every, anchor=anchor, cron=cron, tz=tz)
    return DueJob(work_of(row), schedule, jitter, version, changed_at, next_scheduled_for)


def fire_of(row: tuple[Any, ...], monotonic: float) -> Fire:
    """``monotonic`` is the real instant at which the row was read."""
    fire, scheduled_for, fire_at, origin, fence, attempt, epoch, seq, late_s = row[WORK:]
    return Fire(
        work_of(row),
        fire,
        scheduled_for,
        fire_at,
        origin,
        fence,
        attempt,
        epoch or 0,
        seq or 0,
        monotonic - (late_s or 0),
    )


def _ascii(text: str) -> str:
    """Postgres writes JSON in UTF-8; Celery in ASCII."""
    return text if text.isascii() else canonical_json(json.loads(text))
