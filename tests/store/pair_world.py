"""A small world in which every statement of the stores has something to do, put back in a few milliseconds.

Job time stands at noon. Two jobs of shard 1 recur each minute, one fire of each at a time (``buffer_all``); their next
occurrence is that of 11:59::

    minute     -8       -7          -6       -5        -4        -3        -2               -1, 0
    job 1      running  retry_wait  parked   claimed   claimed   claimed   succeeded        due
               lease out            overlap  number 1  number 2  number 3
    job 2                                                        skipped   skipped(paused)  due
                                             its pause is over since -1½, and its end not yet written

Numbers 1 and 2 are published and confirmed, the watermark is before both. Where several hold the same row, they all
hold the same: who acquires and who parks do so with number 1, and who completes, fails or reaps with the run at -8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import uuid4

from django.db import connection

from scheduling.core.effects import ReadDue
from scheduling.core.fire import Fire as HeldFire
from scheduling.core.plans import JobPlan
from scheduling.models import Fire, Job, JobClock, Shard
from scheduling.store.bucketed import BucketedStore
from scheduling.store.buckets import LATER
from scheduling.store.ledger_port import Acquired, Delivery
from scheduling.store.partitions import day_of, ensure
from scheduling.store.postgres import PostgresStore
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import job_id
from tests.fires import delivery_of
from tests.store.backends import BucketedBackend, PostgresBackend, plans
from tests.store.pair_stage import Seat, Stage

MINUTE = timedelta(minutes=1)
HOUR_S = 3600.0
GRACE = timedelta(hours=2)  # whoever holds the run at -8 is left alone: else a thread behind a reap waits, on its seat
DAYS = 30
SHARD = 1
EPOCHS = {SHARD: 1}
CLOCK = ManualClock(NOON)


class Kind(StrEnum):
    ROWS = "rows"  # the next occurrences are in the jobs' rows
    ENTRIES = "entries"  # they are entries of the bucketed store, that of job 2 among what is later
    POLLED = "polled"  # as at stop 2: no numbers, but deadlines for the broker's confirm
    FINISHED = "finished"  # as entries, and all that was claimed has ended: the day may be dropped
    CROSSED = "crossed"  # two jobs that nobody paused, with fires in turns: 2, 1 wait, and 2, 1, 2, 1 are claimed

    @property
    def is_bucketed(self) -> bool:
        return self in (Kind.ENTRIES, Kind.FINISHED)


def at(minute: float) -> datetime:
    return NOON + MINUTE * minute


@dataclass(frozen=True)
class World:
    """What the actors know of it: as nodes, workers and people have read it before they meet."""

    kind: Kind
    run: Acquired  # as its worker holds it
    sent: Fire  # the first claimed one of job 1
    plans: list[JobPlan] = field(default_factory=list)
    waiting: list[HeldFire] = field(default_factory=list)
    held: list[HeldFire] = field(
        default_factory=list
    )  # claimed, as their owner holds them, in the order of their times

    def store(self, seat: Seat) -> PostgresStore:
        """That of a node which has looked at the world as it was."""
        if not self.kind.is_bucketed:
            return PostgresStore(seat.connect, grace=GRACE)
        store = BucketedStore(seat.connect, grace=GRACE)
        store._until = NOON
        return store

    def message(self) -> Delivery:
        """Another copy of what was sent, in another worker."""
        return delivery_of(self.sent)


def make(kind: Kind, stage: Stage) -> World:
    """The world, in an empty database, as it is kept for ``put_back``."""
    backend = BucketedBackend() if kind.is_bucketed else PostgresBackend()
    try:
        (_cross if kind is Kind.CROSSED else _fill)(backend)
        with connection.cursor() as cursor:
            cursor.execute(DIFFERENCES.get(kind, "SELECT"))
        world = _seen(kind, backend.store)
    finally:
        backend.close()
    stage.session.execute(KEEP.format(kind=kind).encode())
    return world


def _fill(backend: PostgresBackend) -> None:
    _begin(backend)
    backend.put(1, -480, state="running", attempt=1, lease_over_s=HOUR_S)
    backend.put(1, -420, state="retry_wait", reason="failed", attempt=1, fence=2, wake_s=-60)
    backend.put(1, -360, state="parked", reason="overlap", wake_s=-30)
    for number, at_s in ((1, -300), (2, -240), (3, -180)):
        backend.put(1, at_s, state="claimed", number=(1, number))
    backend.put(1, -120, state="succeeded", attempt=1)
    for at_s in (-180, -120):
        backend.put(2, at_s, state="skipped", reason="paused", skipped_s=at_s)
    backend.change(2, paused=True, until_s=-90, catch_up="all")
    Job.objects.filter(pk=job_id(2)).update(paused_at=at(-10))


def _cross(backend: PostgresBackend) -> None:
    _begin(backend)
    backend.put(1, -480, state="running", attempt=1, lease_over_s=HOUR_S)
    for job, at_s in ((2, -420), (1, -360)):
        backend.put(job, at_s, state="parked", reason="turn", wake_s=at_s)
    for number, (job, at_s) in enumerate(((2, -300), (1, -240), (2, -180), (1, -120)), start=1):
        backend.put(job, at_s, state="claimed", number=(1, number))


def _begin(backend: PostgresBackend) -> None:
    JobClock.objects.create(job_origin=NOON, real_origin=None)
    Shard.objects.filter(pk=SHARD).update(epoch=1, owner_id="node-1")
    for number in (1, 2):
        backend.add(number, -60, overlap="buffer_all", misfire_grace_s=HOUR_S)


def _seen(kind: Kind, store: PostgresStore) -> World:
    """As node, worker and person have it, before anybody else comes."""
    fires = Fire.objects.select_related("job__tenant").order_by("scheduled_for")
    run = fires.get(job=job_id(1), scheduled_for=at(-8))
    claimed = list(fires.filter(state="claimed")) or list(fires.filter(job=job_id(1), scheduled_for__gte=at(-5)))
    world = World(kind, run=_acquired(run), sent=next(fire for fire in claimed if fire.job_id == job_id(1)))
    due = store.due(ReadDue(frozenset({SHARD}), NOON, 10)).jobs
    world.plans.extend(plans(list(due), epoch=1, first=20))
    world.waiting.extend(store.waiting([SHARD], now=NOON, limit=10).fires)
    for seq, fire in enumerate(world.waiting, start=10):
        fire.epoch, fire.seq = 1, seq
    works = {plan.due.work.job_id: plan.due.work for plan in world.plans}
    for seq, row in enumerate(claimed, start=1):
        world.held.append(
            HeldFire(works[row.job_id], row.id, row.scheduled_for, row.fire_at, "", 1, 0, 1, seq, exclusive=True)
        )
    return world


def _acquired(fire: Fire) -> Acquired:
    delivery = Delivery(
        fire_id=fire.id,
        job_id=fire.job_id,
        tenant=fire.tenant.slug,
        scheduled_for=fire.scheduled_for,
        history_days=fire.history_days,
        fence=fire.fence,
        holder=fire.holder or uuid4(),
    )
    return Acquired(
        delivery=delivery,
        attempt=1,
        counted=1,
        max_attempts=fire.max_attempts,
        exclusive=True,
        retry_base=timedelta(0),
        retry_cap=timedelta(0),
    )


DIFFERENCES = {
    Kind.ENTRIES: f"UPDATE scheduling_entry SET slot = {LATER} WHERE job_id = '{job_id(2)}'",
    Kind.POLLED: f"""
        UPDATE scheduling_fire SET seq_epoch = NULL, seq = NULL;
        UPDATE scheduling_fire SET confirmed = true WHERE scheduled_for = '{at(-5)}' AND state = 'claimed';
        UPDATE scheduling_fire SET claimed_until = now() - interval '1 hour'
        WHERE scheduled_for = '{at(-3)}' AND state = 'claimed';
    """,
    Kind.FINISHED: f"""
        UPDATE scheduling_fire SET state = 'succeeded', reason = '', attempt = 1, wake_at = NULL
        WHERE state <> 'skipped';
        UPDATE scheduling_entry SET slot = {LATER} WHERE job_id = '{job_id(2)}';
    """,
}
DAY = f"history_days = {DAYS} AND scheduled_for >= '{NOON.date()}' AND scheduled_for < '{(NOON + timedelta(1)).date()}'"
KEEP = f"""
CREATE TEMP TABLE {{kind}}_job AS TABLE scheduling_job;
CREATE TEMP TABLE {{kind}}_fire AS SELECT * FROM scheduling_fire WHERE {DAY};
CREATE TEMP TABLE {{kind}}_entry AS TABLE scheduling_entry;
"""
PUT_BACK = f"""
DELETE FROM scheduling_fire WHERE {DAY};
DELETE FROM scheduling_jobrun WHERE {DAY};
DELETE FROM scheduling_job;
DELETE FROM scheduling_deadletter;
DELETE FROM scheduling_step;
DELETE FROM scheduling_hold;
DELETE FROM pair_effect;
DELETE FROM pair_write;
UPDATE scheduling_shard SET epoch = 1, owner_id = 'node-1' WHERE id = {SHARD};
UPDATE scheduling_shardprogress SET seq_epoch = 1, seq = 0 WHERE shard_id = {SHARD};
INSERT INTO scheduling_job SELECT * FROM {{kind}}_job;
INSERT INTO scheduling_fire SELECT * FROM {{kind}}_fire;
"""


PUT_BACK_ENTRIES = "DELETE FROM scheduling_entry; INSERT INTO scheduling_entry SELECT * FROM {kind}_entry;"


def put_back(world: World, stage: Stage) -> None:
    """As it was made. Its day may have been dropped."""
    ensure(stage.session, [day_of(DAYS, NOON)])
    script = PUT_BACK + PUT_BACK_ENTRIES if world.kind.is_bucketed else PUT_BACK
    stage.session.execute(script.format(kind=world.kind).encode())
