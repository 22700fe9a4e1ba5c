"""Values of the core for tests: what a claim reads, and what it makes of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from scheduling.core.clock import EPOCH
from scheduling.core.definition import Kind, ScheduleFields
from scheduling.core.due import DueJob, ScheduledJob
from scheduling.core.fire import Fire, Lane, Work
from scheduling.core.identity import fire_id
from scheduling.testing.clock import NOON

SECOND = timedelta(seconds=1)


def job_id(number: int) -> UUID:
    """The id of the job of this number: readable where a test fails."""
    return UUID(int=number)


def make_work(number: int = 1, **values: Any) -> Work:
    """What the fires of job ``number`` share; in shard 1, of tenant 1, unless ``values`` say otherwise."""
    tenant = values.pop("tenant_id", 1)
    given: dict[str, Any] = {
        "job_id": job_id(number),
        "shard": 1,
        "tenant_id": tenant,
        "tenant": f"tenant-{tenant}",
        "history_days": 30,
        "name": f"job {number}",
        "task": "tests.none",
        "lane": Lane.BULK,
        "args": "[]",
        "kwargs": "{}",
    }
    return Work(**(given | values))


def every(seconds: float = 1.0, *, anchor: datetime = EPOCH) -> ScheduleFields:
    return ScheduleFields(kind=Kind.INTERVAL, every=timedelta(seconds=seconds), anchor=anchor)


def make_due(
    work: Work, at: datetime | None = NOON, *, schedule: ScheduleFields | None = None, **values: Any
) -> DueJob:
    """A job whose next occurrence is ``at``: a single instant, unless there is a schedule."""
    schedule = schedule or ScheduleFields(kind=Kind.ONCE, at=at)
    given: dict[str, Any] = {"jitter": timedelta(0), "version": 1, "changed_at": EPOCH}
    fire_at = values.pop("next_fire_at", None)
    return DueJob(ScheduledJob(work=work, schedule=schedule, **(given | values)), at, fire_at)


def make_fire(
    work: Work | None = None, at: datetime = NOON, *, seq: int = 1, epoch: int = 1, origin: str = "", **values: Any
) -> Fire:
    """A claimed fire of the occurrence ``at``, under fence 1, never started."""
    work = work or make_work()
    given: dict[str, Any] = {"fire_at": at, "fence": 1, "attempt": 0}
    return Fire(
        work=work,
        id=fire_id(work.job_id, at, origin),
        scheduled_for=at,
        origin=origin,
        epoch=epoch,
        seq=seq,
        **(given | values),
    )
