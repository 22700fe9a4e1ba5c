"""The jobs of a run, and what each of them should have done: found by arithmetic, without the code that is tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

from scheduling.core.definition import Kind, ScheduleFields
from scheduling.core.fire import Lane, MisfirePolicy, OverlapPolicy, Work
from scheduling.core.jitter import jittered
from scheduling.core.recurrence import Schedule
from scheduling.store.memory_rows import StoredJob
from scheduling.testing.clock import NOON

SECOND = timedelta(seconds=1)
TENANTS = 2
PERIODS_S = (0.4, 0.5, 1.0, 1.3, 2.0, 5.0)
JITTERS_S = (0.0, 0.0, 0.0, 0.3, 1.5)


def drawn_jobs(random: Random, count: int, *, shards: int, until_s: float) -> list[StoredJob]:
    return [_job(random, number, shards, NOON + SECOND * until_s) for number in range(count)]


def drawn_schedule(random: Random, until: datetime) -> ScheduleFields:
    """An interval up to ``until``: then the run comes to rest."""
    return ScheduleFields(
        kind=Kind.INTERVAL,
        every=SECOND * random.choice(PERIODS_S),
        anchor=NOON - SECOND * random.choice((0, 1, 3.7)),
        end_at=until,
    )


def drawn_jitter(random: Random) -> timedelta:
    return SECOND * random.choice(JITTERS_S)


def _job(random: Random, number: int, shards: int, until: datetime) -> StoredJob:
    tenant = number % TENANTS
    job_id = UUID(int=number + 1)
    work = Work(
        job_id=job_id,
        shard=random.randrange(shards),
        tenant_id=tenant,
        tenant=f"tenant-{tenant}",
        history_days=30,
        name=f"job {number}",
        task="simulation.none",
        lane=random.choice(list(Lane)),
        args="[]",
        kwargs="{}",
        overlap=random.choice([OverlapPolicy.ALLOW, *OverlapPolicy]),
        buffer_limit=3,
        misfire=random.choice(list(MisfirePolicy)),
        misfire_grace_s=random.choice((0.5, 2.0, 30.0)),
        catch_up_limit=random.choice((1, 3, 100)),
        catch_up_window=SECOND * random.choice((2, 3600)),
    )
    schedule, jitter = drawn_schedule(random, until), drawn_jitter(random)
    first = schedule.build().next_after(NOON)
    return StoredJob(
        work,
        schedule,
        first,
        None if first is None else fire_time(schedule.build(), job_id, first, jitter),
        NOON,
        jitter,
        max_attempts=random.choice((2, 5)),
        retry_base=SECOND * 0.3,
        retry_cap=SECOND * 2,
        expires_after=random.choice((None, None, None, SECOND * 3)),
    )


def fire_time(schedule: Schedule, job_id: UUID, at: datetime, jitter: timedelta) -> datetime:
    return jittered(job_id, at, jitter, schedule.next_after(at)) if jitter else at


@dataclass(slots=True)
class Chronicle:
    """What one job's schedule has been: each from an instant on; and until when it was wanted at all."""

    schedules: list[tuple[datetime, ScheduleFields]] = field(default_factory=list)
    ends_at: datetime | None = None  # deleted: what has no row by then needs none

    def expected(self) -> Iterator[datetime]:
        """Every occurrence that it should have had, in order."""
        for number, (since, schedule) in enumerate(self.schedules):
            ends = [self.ends_at] if self.ends_at is not None else []
            ends += [since for since, _ in self.schedules[number + 1 : number + 2]]
            yield from _instants(schedule, since, ends)


def _instants(schedule: ScheduleFields, since: datetime, ends: Iterable[datetime]) -> Iterator[datetime]:
    """After ``since``, up to the first of the ends, by steps from the anchor."""
    assert schedule.every is not None
    assert schedule.anchor is not None
    assert schedule.end_at is not None
    last = min([schedule.end_at, *ends])
    at = schedule.anchor
    while at <= last:
        if at > since:
            yield at
        at += schedule.every
