"""Rows of the ledger for tests: a job, a fire of it in any state, and the delivery that a worker would have of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from django.db import connection

from fairness.models import Tenant
from scheduling.core import message
from scheduling.core.fire import Fire as ClaimedFire
from scheduling.core.fire import Lane, Work
from scheduling.core.identity import fire_id
from scheduling.models import Fire, Job
from scheduling.store.ledger_port import Delivery
from scheduling.store.partitions import day_of, ensure

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def make_job(task: str = "tests.none", *, tenant: str = "default", **policy: Any) -> Job:
    """A job whose schedule is far away: its fires are made by hand."""
    return Job.objects.once(task, datetime(2090, 1, 1, tzinfo=UTC), tenant=tenant, **policy)


def make_fire(job: Job, scheduled_for: datetime = NOON, *, origin: str = "", **columns: Any) -> Fire:
    """A fire of the job, claimed at fence 1 unless the columns say otherwise; with its partition."""
    days = job.tenant.history_days
    connection.ensure_connection()
    ensure(connection.connection, [day_of(days, scheduled_for)])
    values = {
        "fire_at": scheduled_for,
        "schedule_version": job.schedule_version,
        "state": "claimed",
        "max_attempts": job.max_attempts,
        "exclusive": job.overlap != "allow",
        "claimed_at": datetime.now(UTC),
    }
    return Fire.objects.create(
        id=fire_id(job.id, scheduled_for, origin),
        job=job,
        tenant=job.tenant,
        shard_id=job.shard_id,
        history_days=days,
        scheduled_for=scheduled_for,
        origin=origin,
        **(values | columns),
    )


def delivery_of(fire: Fire, *, fence: int | None = None) -> Delivery:
    """A delivery of the fire's message, as it was published under ``fence`` (the row's own)."""
    return Delivery(
        fire_id=fire.id,
        job_id=fire.job_id,
        tenant=fire.tenant.slug,
        scheduled_for=fire.scheduled_for,
        history_days=fire.history_days,
        fence=fire.fence if fence is None else fence,
        holder=uuid4(),
    )


def row_of(fire: Fire) -> Fire:
    """As it is by now."""
    return Fire.objects.by_id(fire.id)


def claimed(fire: Fire) -> ClaimedFire:
    """The fire as a node holds it."""
    job = fire.job
    tenant: Tenant = job.tenant
    work = Work(
        job_id=job.id,
        shard=job.shard_id,
        tenant_id=tenant.pk,
        tenant=tenant.slug,
        history_days=tenant.history_days,
        name=job.name,
        task=job.task,
        lane=Lane(job.lane),
        args=message.canonical_json(job.args),
        kwargs=message.canonical_json(job.kwargs),
        soft_timeout_s=job.soft_timeout_s,
        hard_timeout_s=job.hard_timeout_s,
    )
    return ClaimedFire(
        work, fire.id, fire.scheduled_for, fire.fire_at, fire.origin, fire.fence, fire.attempt, epoch=1, seq=1
    )


def headers_of(fire: Fire) -> dict[str, Any]:
    """The headers of the fire's message."""
    return message.headers(claimed(fire), origin="gen1@test", ignore_result=False)
