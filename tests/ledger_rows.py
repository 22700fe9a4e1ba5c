"""Rows of the ledger written by hand, for tests of those who read it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import psycopg
from django.db import connection

from scheduling.core.identity import fire_id, run_id
from scheduling.models import Fire, Job, JobRun
from scheduling.store import partitions

DAY = datetime(2026, 3, 2, tzinfo=UTC)  # a Monday


def make_day(day: date, *, history_days: int = 30) -> None:
    """The partitions of a day, in this test's transaction."""
    connection.ensure_connection()
    partitions.ensure(cast(psycopg.Connection[Any], connection.connection), [(history_days, day)])


def add_fire(job: Job, scheduled_for: datetime = DAY, **values: Any) -> Fire:
    """A fire of this job, claimed unless ``values`` say otherwise, with what its state demands."""
    row: dict[str, Any] = {
        "id": fire_id(job.id, scheduled_for, values.get("origin", "")),
        "shard_id": job.shard_id,
        "history_days": job.tenant.history_days,
        "fire_at": scheduled_for,
        "schedule_version": job.schedule_version,
        "state": "claimed",
    }
    match values.get("state"):
        case "running":
            row |= {"attempt": 1, "holder": uuid4(), "lease_until": DAY, "started_at": DAY}
        case "succeeded":
            row |= {"attempt": 1, "started_at": DAY, "finished_at": DAY}
        case "parked" | "retry_wait":
            row |= {"wake_at": DAY, "reason": "turn"}
        case "skipped" | "dead":
            row |= {"reason": "missed", "finished_at": DAY}
    make_day(scheduled_for.date(), history_days=row["history_days"])
    return Fire.objects.create(job=job, tenant=job.tenant, scheduled_for=scheduled_for, **row | values)


def add_run(fire: Fire, **values: Any) -> JobRun:
    """A succeeded first attempt of this fire, of one second, unless ``values`` say otherwise."""
    row: dict[str, Any] = {
        "id": run_id(fire.id, fire.fence),
        "fence": fire.fence,
        "history_days": fire.history_days,
        "attempt": 1,
        "state": "succeeded",
        "holder": uuid4(),
        "started_at": fire.scheduled_for,
        "finished_at": fire.scheduled_for + timedelta(seconds=1),
    }
    return JobRun.objects.create(
        fire_id=fire.id, job=fire.job, tenant=fire.tenant, scheduled_for=fire.scheduled_for, **row | values
    )
