"""The owner of every shard, as a node is: it looks at an instant of job time that the test names, and claims."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from itertools import count
from uuid import UUID

from django.db import connection

from scheduling.core.effects import ReadDue
from scheduling.core.fire import Fire as HeldFire
from scheduling.core.planning import plan_jobs
from scheduling.core.plans import JobPlan
from scheduling.models import Fire, Job, JobClock
from scheduling.store.bucketed import BucketedStore
from scheduling.store.connection import connector
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Refused
from scheduling.store.next_runs import next_runs
from scheduling.store.postgres import PostgresStore
from scheduling.testing.clock import ManualClock
from tests.fires import delivery_of
from tests.store.backends import make_node, put_in_bucket

SHARDS = range(64)


class Owner:
    """Job time stands where the test puts it: for the nodes, and for the trigger that notices an edit. ``make``: its
    store. Some shards may be in the hands of another store, as of another node's.
    """

    def __init__(self, now: datetime, *, make: type[PostgresStore] = PostgresStore) -> None:
        self.clock = ManualClock(now)
        self._numbers = count(1)
        self.at(now)
        make_node("owner")
        self.start_again(make)

    def start_again(self, make: type[PostgresStore]) -> None:
        """As a new process, perhaps with another store."""
        self.store = make(connector(connection.get_connection_params(), name="owner"))
        self._epochs: dict[int, int] = {}
        self._holders: dict[int, PostgresStore] = {}
        self.take_over()

    def take_over(self, shards: Collection[int] = SHARDS, store: PostgresStore | None = None) -> None:
        store = store or self.store
        self._epochs |= store.take_over(shards, "owner")[0]
        self._holders |= dict.fromkeys(shards, store)

    def keeps(self, job: Job) -> Job:
        """As if it had fired before: with the bucketed store its next occurrence is an entry, where it may be one."""
        if isinstance(self.store, BucketedStore) and job.max_runs is None and job.calendar is None:
            put_in_bucket(Job.objects.get(pk=job.pk))
        return job

    def at(self, now: datetime) -> datetime:
        """It is now this time."""
        self.clock.set_job_time(now)
        JobClock.objects.update_or_create(id=1, defaults={"job_origin": now, "real_origin": None})
        return now

    def look(self, now: datetime, *, ahead_s: float = 0.0, limit: int = 1000) -> list[JobPlan]:
        """What is due at this time, or within a window from it, is planned and claimed."""
        self.at(now)
        until = now + timedelta(seconds=ahead_s)
        looks = [  # by halves, as a node does, which plans the one while the other is claimed
            (store, store.due(ReadDue(half, until, limit)).jobs)
            for store, mine in self._each()
            for half in (frozenset(mine[::2]), frozenset(mine[1::2]))
        ]
        claims = [
            (store, plan_jobs(due, until=until, clock=self.clock, number=self._number, room=limit))
            for store, due in looks
        ]
        for store, plans in claims:
            store.claim({plan.due.work.shard: self._epochs[plan.due.work.shard] for plan in plans}, plans)
        return [plan for _, plans in claims for plan in plans]

    def _each(self) -> list[tuple[PostgresStore, list[int]]]:
        """The stores, and the shards in their hands."""
        stores = dict.fromkeys(self._holders.values())
        return [(store, [shard for shard in SHARDS if self._holders[shard] is store]) for store in stores]

    def _number(self, shard: int) -> tuple[int, int]:
        return self._epochs[shard], next(self._numbers)

    def waiting(self, now: datetime) -> list[HeldFire]:
        self.at(now)
        return list(self.store.waiting(SHARDS, now=now, limit=1000).fires)

    # -- upkeep, as a node does it every so often ---------------------------------------------------------------

    def reap(self) -> None:
        for store, mine in self._each():
            store.reap({shard: self._epochs[shard] for shard in mine}, now=self.clock.now())

    def promote(self) -> None:
        for store, mine in self._each():
            while store.promote({shard: self._epochs[shard] for shard in mine}, now=self.clock.now()):
                pass

    def expire(self) -> None:
        self.store.expire(SHARDS, now=self.clock.now())


def acquire(fire: Fire, *, fence: int | None = None) -> str:
    """What a worker is told: ``runs``, or the reason of the refusal."""
    answer = PostgresLedger("default", lease=timedelta(seconds=30)).acquire(delivery_of(fire, fence=fence))
    if isinstance(answer, Refused):
        return str(answer.reason)
    assert isinstance(answer, Acquired)
    return "runs"


def rows(job: Job) -> list[str]:
    """The job's fires in order: ``HH:MM:SS state reason``, and how many they cover where that is more than one."""
    return [
        f"{fire.scheduled_for:%H:%M:%S} {fire.state} {fire.reason}".rstrip()
        + (f" ×{fire.covers}" if fire.covers > 1 else "")
        for fire in Fire.objects.filter(job=job).order_by("scheduled_for")
    ]


def covered(job: Job) -> int:
    return sum(Fire.objects.filter(job=job).values_list("covers", flat=True))


def next_of(job: Job) -> str | None:
    connection.ensure_connection()
    at = next_runs(connection.connection, [job.pk])[job.pk].scheduled_for
    return None if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def fire_at(job: Job, at: datetime) -> Fire:
    return Fire.objects.select_related("job__tenant").get(job=job, scheduled_for=at, origin="")


def with_id(job: Job, job_id: UUID) -> Job:
    """The same new job under an id that the test chose, and planned under it."""
    Job.objects.filter(pk=job.pk).delete()
    job.pk, job._state.adding = job_id, True
    job.save(force_insert=True)
    return job
