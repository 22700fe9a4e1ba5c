"""Rows of ``schedule.sql`` as values of the core."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import lru_cache
from sys import intern
from typing import Any

from scheduling.core.closed_times import CalendarFields
from scheduling.core.definition import Kind, ScheduleFields
from scheduling.core.due import FOR_EVER, DueJob, ScheduledJob, Superseded
from scheduling.core.fire import Fire, Lane, MisfirePolicy, OverlapPolicy, Work
from scheduling.core.message import canonical_json
from scheduling.core.payload import PAYLOAD_LIMIT, unlimited, unsendable

WORK = 18  # columns of the statement ``work``
POLICIES = 10  # where those begin that _policies shares
SHARD = 1
TENANT_ID = 2
FIRE_ID = WORK
FIRE_AT = WORK + 2  # of a fire
ATTEMPT = WORK + 5
NEXT_FIRE_AT = WORK  # of a due job
NEXT_SCHEDULED_FOR = WORK + 1
SCHEDULE = WORK + 15  # where the columns of ScheduleFields begin


def work_of(row: tuple[Any, ...]) -> Work:
    """What a job's row says, whoever wrote it: what cannot be sent is noted, and stops nobody else."""
    job_id, shard, tenant_id, tenant, history_days, name, task, lane, args, kwargs = row[:POLICIES]
    args, kwargs = _json(args), _json(kwargs)
    problem = unsendable(args, kwargs) or unlimited(*row[POLICIES : POLICIES + 2])
    if problem:
        args, kwargs = "[]", "{}"
    return Work(
        job_id, shard, tenant_id, intern(tenant), history_days, name, intern(task), _LANES[lane], args, kwargs,
        *(*_policies(*row[POLICIES:WORK]), problem),
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _policies(
    soft_timeout_s: float | None, hard_timeout_s: float | None, overlap: str, buffer_limit: int, misfire: str,
    misfire_grace_s: float, catch_up_limit: int, catch_up_window: timedelta,
) -> tuple[Any, ...]:  # fmt: skip
    """Most jobs have the same: one object of each value for all of them, where a row brings its own."""
    return (
        soft_timeout_s, hard_timeout_s, OverlapPolicy(overlap), buffer_limit, MisfirePolicy(misfire), misfire_grace_s,
        catch_up_limit, catch_up_window,
    )  # fmt: skip


def due_job_of(row: tuple[Any, ...]) -> DueJob:
    return DueJob(scheduled_job_of(row), row[NEXT_SCHEDULED_FOR], row[NEXT_FIRE_AT])


def scheduled_job_of(row: tuple[Any, ...]) -> ScheduledJob:
    (
        _, _, jitter, version, changed_at, in_bucket, max_runs, max_attempts, fired, superseded,
        is_paused, paused_until, tz, days, hours,
    ) = row[WORK:SCHEDULE]  # fmt: skip
    return ScheduledJob(
        work_of(row),
        ScheduleFields(Kind(row[SCHEDULE]), *row[SCHEDULE + 1 :]),
        jitter,
        version,
        changed_at,
        None if tz is None else CalendarFields(tz, tuple(days), hours),
        max_runs,
        max_attempts,
        fired,
        tuple(_superseded(said) for said in superseded),
        (paused_until or FOR_EVER) if is_paused else None,
        in_bucket,
    )


def _superseded(said: dict[str, Any]) -> Superseded:
    """What the trigger on jobs wrote of an old schedule."""
    schedule = ScheduleFields(
        kind=Kind(said["kind"]),
        at=_instant(said["at"]),
        every=None if said["every_us"] is None else timedelta(microseconds=said["every_us"]),
        anchor=_instant(said["anchor"]),
        cron=said["cron"],
        rrule=said["rrule"],
        dtstart=_instant(said["dtstart"]),
        tz=said["tz"],
        day_match=said["day_match"],
        gap=said["gap"],
        fold=said["fold"],
        start_at=_instant(said["start_at"]),
        end_at=_instant(said["end_at"]),
    )
    edited_at = datetime.fromisoformat(said["edited_at"])
    return Superseded(schedule, timedelta(microseconds=said["jitter_us"]), _instant(said["after"]), edited_at)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def fire_of(row: tuple[Any, ...], monotonic: float) -> Fire:
    """``monotonic`` is the real instant at which the row was read."""
    fire, scheduled_for, fire_at, origin, fence, attempt, epoch, seq, exclusive, late_s = row[WORK:]
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
        exclusive=exclusive,
    )


def _json(text: str) -> str:
    """Postgres writes JSON in UTF-8; Celery in ASCII. Jobs without arguments share the text that says so. One that is
    too large, and was cut off by the statement, or cannot be read stays as it is.
    """
    if len(text) == 2:
        return intern(text)
    if text.isascii() or len(text) > PAYLOAD_LIMIT:
        return text
    try:
        return canonical_json(json.loads(text))
    except (ValueError, RecursionError):
        return text


_LANES = {lane.value: lane for lane in Lane}
