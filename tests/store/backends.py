"""The schedule's stores as a test sees them: rows put in and looked at by the same words, whichever store it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Protocol
from uuid import UUID, uuid4

from django.db import connection
from django.db.models import F

from fairness.models import Tenant
from scheduling.core.clock import EPOCH
from scheduling.core.definition import Kind
from scheduling.core.due import FOR_EVER, DueJob
from scheduling.core.fire import CatchUp, OverlapPolicy, State
from scheduling.core.identity import fire_id
from scheduling.core.planning import plan_jobs
from scheduling.core.plans import JobPlan
from scheduling.models import DeadLetter, Entry, Fire, Job, JobRun, Shard, ShardProgress, Step
from scheduling.store.bucketed import BucketedStore
from scheduling.store.buckets import bucket_of, slot_of_bucket
from scheduling.store.connection import connector
from scheduling.store.memory import MemoryStore
from scheduling.store.memory_rows import StoredFire, StoredJob
from scheduling.store.next_runs import next_runs
from scheduling.store.partitions import day_of, ensure
from scheduling.store.port import ScheduleStore
from scheduling.store.postgres import PostgresStore
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import SECOND, every, job_id, make_work

SHARDS = 4


@dataclass(frozen=True)
class Row:
    """What a test may ask of a fire."""

    state: str
    reason: str
    fence: int
    attempt: int
    number: tuple[int, int] | None
    wake_at: datetime | None
    version: int
    covers: int


class Backend(Protocol):
    """``at`` is the occurrence: seconds after noon. A job is known by its number."""

    @property
    def store(self) -> ScheduleStore: ...

    def add(self, number: int, at_s: float = 0.0, *, shard: int = 1, tenant: int = 1, **policy: Any) -> None:
        """A job with an interval of a minute, due at ``at_s``."""

    def change(self, number: int, **what: Any) -> None:
        """``edited=True`` (its version moves, and it is to be planned anew), ``deleted=True``; ``paused=True`` (since
        noon, with ``until_s`` and ``catch_up``)."""

    def put(self, job: int, at_s: float = 0.0, *, state: str, origin: str = "", **columns: Any) -> UUID:
        """A fire; ``reason``, ``fence``, ``attempt``, ``number``, ``wake_s``, ``lease_over_s`` (by how long it has run
        out), ``skipped_s``, ``confirmed``, ``max_attempts``, ``covers``. Gives its id."""

    def row(self, fire: UUID) -> Row | None: ...

    def job(self, number: int) -> tuple[datetime | None, datetime | None, str]:
        """next_scheduled_for, next_fire_at, problem."""

    def mark(self, shard: int) -> tuple[int, int]: ...

    def owner(self, shard: int) -> str | None: ...

    def lost_runs(self) -> set[tuple[UUID, int]]:
        """(fire, fence) of the runs that a reaper ended."""

    def age(self, seconds: float) -> None:
        """As if everything had been claimed this much earlier."""

    def cancel(self, fire: UUID) -> None:
        """A person cancels it, before it has started."""

    def acquire(self, fire: UUID) -> None:
        """A worker starts it."""

    def claim_again(self, fire: UUID) -> None:
        """Its owner claims it once more, under a higher fence."""

    def ask_to_stop(self, fire: UUID, reason: str) -> None:
        """A person does, while it runs."""

    def runs(self, fire: UUID) -> dict[int, str]:
        """How its attempts ended, by fence."""

    def letter(self, fire: UUID) -> tuple[str, int, int, str, str] | None:
        """Of its dead letter: reason, fence, attempts, error, worker."""

    def steps(self, fire: UUID) -> dict[str, tuple[int, bool, Any]]:
        """Of each by its name: the fence of the attempt that began it, whether it is done, its result."""


def plans(jobs: list[DueJob], *, epoch: int, until_s: float = 0.0, first: int = 1) -> list[JobPlan]:
    """Plans for these jobs as a node makes them at noon, numbered from ``first``."""
    numbers = count(first)
    until = NOON + SECOND * until_s
    return plan_jobs(jobs, until=until, clock=ManualClock(), number=lambda _: (epoch, next(numbers)), room=10_000)


class MemoryBackend:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.clock.advance(1000)
        self.owners: dict[int, str] = {}
        self.store: MemoryStore = MemoryStore(self.clock, shards=range(SHARDS), owners=self.owners, rand=lambda: 1.0)

    def add(self, number: int, at_s: float = 0.0, *, shard: int = 1, tenant: int = 1, **policy: Any) -> None:
        of_job = ("max_attempts", "retry_base", "max_runs", "expires_after")
        own = {name: policy.pop(name) for name in of_job if name in policy}
        at = NOON + SECOND * at_s
        work = make_work(number, shard=shard, tenant_id=tenant, **policy)
        self.store.add(StoredJob(work, every(60, anchor=at), at, at, EPOCH, **own))

    def change(self, number: int, **what: Any) -> None:
        job = self.store.rows.jobs[job_id(number)]
        if what.get("edited"):
            job.version += 1
            job.changed_at, job.next_scheduled_for, job.next_fire_at = NOON - SECOND, None, NOON - SECOND
        if what.get("paused"):
            job.paused_at, job.catch_up = NOON, CatchUp(what.get("catch_up", "none"))
            job.paused_until = FOR_EVER if "until_s" not in what else NOON + SECOND * what["until_s"]
        if what.get("deleted"):
            job.is_deleted, job.next_scheduled_for, job.next_fire_at = True, None, None

    def put(self, job: int, at_s: float = 0.0, *, state: str, origin: str = "", **columns: Any) -> UUID:
        row = self.store.rows.jobs[job_id(job)]
        at = NOON + SECOND * at_s
        lease_over_s, wake_s = columns.pop("lease_over_s", None), columns.pop("wake_s", None)
        skipped_s = columns.pop("skipped_s", None)
        now = self.clock.monotonic()
        fire = StoredFire(
            work=row.work,
            id=fire_id(row.work.job_id, at, origin),
            scheduled_for=at,
            fire_at=at,
            origin=origin,
            version=row.version,
            state=State(state),
            claimed_at=now,
            wake_at=None if wake_s is None else NOON + SECOND * wake_s,
            started_at=now - 60 if lease_over_s is not None else None,
            lease_until=None if lease_over_s is None else now - lease_over_s,
            skipped_at=None if skipped_s is None else NOON + SECOND * skipped_s,
            **columns,
        )
        self.store.rows.fires[fire.id] = fire
        return fire.id

    def row(self, fire: UUID) -> Row | None:
        found = self.store.rows.fires.get(fire)
        if found is None:
            return None
        return Row(
            found.state,
            found.reason,
            found.fence,
            found.attempt,
            found.number,
            found.wake_at,
            found.version,
            found.covers,
        )

    def job(self, number: int) -> tuple[datetime | None, datetime | None, str]:
        job = self.store.rows.jobs[job_id(number)]
        return job.next_scheduled_for, job.next_fire_at, job.problem

    def mark(self, shard: int) -> tuple[int, int]:
        return self.store.rows.shards[shard].mark

    def owner(self, shard: int) -> str | None:
        return self.owners.get(shard)

    def lost_runs(self) -> set[tuple[UUID, int]]:
        return {key for key, run in self.store.rows.runs.items() if run.state == "lost"}

    def age(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def cancel(self, fire: UUID) -> None:
        row = self.store.rows.fires[fire]
        row.state, row.reason = State.SKIPPED, "cancelled"

    def acquire(self, fire: UUID) -> None:
        row = self.store.rows.fires[fire]
        row.state, row.attempt = State.RUNNING, row.attempt + 1

    def claim_again(self, fire: UUID) -> None:
        row = self.store.rows.fires[fire]
        row.state, row.reason, row.fence = State.CLAIMED, "", row.fence + 1
        row.holder = row.lease_until = row.wake_at = None

    def ask_to_stop(self, fire: UUID, reason: str) -> None:
        row = self.store.rows.fires[fire]
        if row.state is State.RUNNING:
            row.cancel_reason = reason

    def runs(self, fire: UUID) -> dict[int, str]:
        return {fence: str(run.state) for (of, fence), run in self.store.rows.runs.items() if of == fire}

    def letter(self, fire: UUID) -> tuple[str, int, int, str, str] | None:
        found = self.store.rows.letters.get(fire)
        return None if found is None else (found.reason, found.fence, found.attempts, found.error, found.worker)

    def steps(self, fire: UUID) -> dict[str, tuple[int, bool, Any]]:
        steps = self.store.rows.steps.items()
        return {name: (step.fence, step.is_done, json.loads(step.result)) for (of, name), step in steps if of == fire}


class PostgresBackend:
    """``store`` has a connection of its own; what the test puts in is committed."""

    make: type[PostgresStore] = PostgresStore

    def __init__(self) -> None:
        self._opened: list[PostgresStore] = []
        self.store: PostgresStore = self.another("test")
        connection.ensure_connection()
        for name in ("node-1", "node-2"):
            make_node(name)

    def another(self, name: str) -> PostgresStore:
        """The store of another node."""
        connect = connector(connection.get_connection_params(), name=name)
        self._opened.append(self.make(connect, grace=timedelta(seconds=5)))
        return self._opened[-1]

    def close(self) -> None:
        for store in self._opened:
            store.close()

    def add(self, number: int, at_s: float = 0.0, *, shard: int = 1, tenant: int = 1, **policy: Any) -> None:
        at = NOON + SECOND * at_s
        owner, _ = Tenant.objects.get_or_create(id=1000 + tenant, defaults={"slug": f"tenant-{tenant}"})
        days = policy.pop("history_days", None)
        if days is not None and owner.history_days != days:
            Tenant.objects.filter(pk=owner.pk).delete()
            owner = Tenant.objects.create(id=owner.pk, slug=owner.slug, history_days=days)
        job = Job(
            id=job_id(number),
            tenant=owner,
            task="tests.none",
            name=f"job {number}",
            kind=Kind.INTERVAL,
            every=timedelta(minutes=1),
            anchor=at,
            **policy,
        )
        job.save()
        Job.objects.filter(pk=job.pk).update(
            shard_id=shard, next_scheduled_for=at, next_fire_at=at, schedule_changed_at=EPOCH
        )

    def change(self, number: int, **what: Any) -> None:
        job = Job.objects.filter(pk=job_id(number))
        if what.get("edited"):
            version = job.get().schedule_version + 1
            job.update(
                schedule_version=version,
                schedule_changed_at=NOON - SECOND,
                next_scheduled_for=None,
                next_fire_at=NOON - SECOND,
            )
        if what.get("paused"):
            until = NOON + SECOND * what["until_s"] if "until_s" in what else None
            job.update(paused_at=NOON, paused_until=until, catch_up=what.get("catch_up", "none"))
        if what.get("deleted"):
            job.update(deleted_at=NOON, next_scheduled_for=None, next_fire_at=None)

    def put(self, job: int, at_s: float = 0.0, *, state: str, origin: str = "", **columns: Any) -> UUID:
        row = Job.objects.select_related("tenant").get(pk=job_id(job))
        at = NOON + SECOND * at_s
        ensure(connection.connection, [day_of(row.tenant.history_days, at)])
        now = database_now()
        if (lease_over_s := columns.pop("lease_over_s", None)) is not None:
            columns |= {"lease_until": now - SECOND * lease_over_s, "started_at": now - SECOND * 60, "holder": uuid4()}
        if (wake_s := columns.pop("wake_s", None)) is not None:
            columns["wake_at"] = NOON + SECOND * wake_s
        if (skipped_s := columns.pop("skipped_s", None)) is not None:
            columns["finished_at"] = NOON + SECOND * skipped_s
        if state == "running":
            columns = {"lease_until": now + SECOND * 30, "started_at": now, "holder": uuid4()} | columns
        number_ = columns.pop("number", None)
        epoch, seq = number_ or (None, None)
        fire = Fire.objects.create(
            id=fire_id(row.id, at, origin),
            job=row,
            tenant=row.tenant,
            shard_id=row.shard_id,
            history_days=row.tenant.history_days,
            scheduled_for=at,
            fire_at=at,
            origin=origin,
            schedule_version=row.schedule_version,
            state=state,
            exclusive=row.overlap != OverlapPolicy.ALLOW,
            claimed_at=now,
            seq_epoch=epoch,
            seq=seq,
            **({"max_attempts": 3} | columns),
        )
        return fire.id

    def row(self, fire: UUID) -> Row | None:
        found = Fire.objects.filter(pk=fire).first()
        if found is None:
            return None
        number = None if found.seq is None or found.seq_epoch is None else (found.seq_epoch, found.seq)
        return Row(
            found.state,
            found.reason,
            found.fence,
            found.attempt,
            number,
            found.wake_at,
            found.schedule_version,
            found.covers,
        )

    def job(self, number: int) -> tuple[datetime | None, datetime | None, str]:
        job = Job.objects.get(pk=job_id(number))
        return job.next_scheduled_for, job.next_fire_at, job.problem

    def mark(self, shard: int) -> tuple[int, int]:
        found = ShardProgress.objects.get(shard_id=shard)
        return found.seq_epoch, found.seq

    def owner(self, shard: int) -> str | None:
        return Shard.objects.get(pk=shard).owner_id

    def lost_runs(self) -> set[tuple[UUID, int]]:
        return set(JobRun.objects.filter(state="lost").values_list("fire_id", "fence"))

    def age(self, seconds: float) -> None:
        Fire.objects.update(claimed_at=F("claimed_at") - timedelta(seconds=seconds))

    def cancel(self, fire: UUID) -> None:
        Fire.objects.filter(pk=fire).update(state="skipped", reason="cancelled", wake_at=None)

    def acquire(self, fire: UUID) -> None:
        lease = {"holder": uuid4(), "lease_until": NOON, "started_at": NOON}
        Fire.objects.filter(pk=fire).update(state="running", attempt=F("attempt") + 1, **lease)

    def claim_again(self, fire: UUID) -> None:
        free = {"holder": None, "lease_until": None, "wake_at": None, "finished_at": None}
        Fire.objects.filter(pk=fire).update(state="claimed", reason="", fence=F("fence") + 1, **free)

    def ask_to_stop(self, fire: UUID, reason: str) -> None:
        Fire.objects.filter(pk=fire, state="running").update(cancel_reason=reason)

    def runs(self, fire: UUID) -> dict[int, str]:
        return dict(JobRun.objects.filter(fire_id=fire).values_list("fence", "state"))

    def letter(self, fire: UUID) -> tuple[str, int, int, str, str] | None:
        columns = ("reason", "fence", "attempts", "error", "worker")
        return DeadLetter.objects.filter(fire_id=fire).values_list(*columns).first()

    def steps(self, fire: UUID) -> dict[str, tuple[int, bool, Any]]:
        steps = Step.objects.filter(fire_id=fire).values_list("name", "fence", "is_done", "result")
        return {name: (fence, is_done, result) for name, fence, is_done, result in steps}


class BucketedBackend(PostgresBackend):
    """Its jobs are entries from the start, as they are once they have fired."""

    make = BucketedStore

    def add(self, number: int, at_s: float = 0.0, *, shard: int = 1, tenant: int = 1, **policy: Any) -> None:
        super().add(number, at_s, shard=shard, tenant=tenant, **policy)
        job = Job.objects.get(pk=job_id(number))
        if job.max_runs is None:
            put_in_bucket(job)

    def change(self, number: int, **what: Any) -> None:
        super().change(number, **what)
        if what.get("deleted"):
            Job.objects.filter(pk=job_id(number)).update(in_bucket=False)

    def job(self, number: int) -> tuple[datetime | None, datetime | None, str]:
        (run,) = next_runs(connection.connection, [job_id(number)]).values()
        return run.scheduled_for, run.fire_at, Job.objects.get(pk=job_id(number)).problem


def put_in_bucket(job: Job) -> None:
    """As the claim does that takes its next occurrence out of its row."""
    assert job.next_scheduled_for is not None
    assert job.next_fire_at is not None
    bucket = bucket_of(job.next_fire_at)
    Entry.objects.create(
        job_id=job.pk,
        slot=slot_of_bucket(bucket),
        shard_id=job.shard_id,
        tenant_id=job.tenant_id,
        schedule_version=job.schedule_version,
        bucket=bucket,
        scheduled_for=job.next_scheduled_for,
        fire_at=job.next_fire_at,
    )
    Job.objects.filter(pk=job.pk).update(next_scheduled_for=None, next_fire_at=None, in_bucket=True)


def make_node(name: str) -> None:
    """A node's row, for the shards that it owns."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduling_node (id, region, weight, started_at, lease_until, fires, latency)"
            " VALUES (%s, '', 1, now(), now() + interval '1 hour', 0, '{}') ON CONFLICT DO NOTHING",
            [name],
        )


def database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
