"""Tenants that have enough under way: nothing of theirs is read, and what they have is in nobody's way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import UUID

import pytest
from django.db import connection, transaction

from scheduling.core.due import Due
from scheduling.core.effects import ReadDue
from scheduling.core.runs import HELD_BACK
from scheduling.models import Entry, Job, JobClock
from scheduling.store import bucketed
from scheduling.store.buckets import RING, leaf
from scheduling.testing.clock import NOON
from tests.claims import SECOND, job_id
from tests.store.backends import Backend, BucketedBackend, MemoryBackend, PostgresBackend, plans
from tests.store.pages import pages_of
from tests.store.steps import owned

FULL, OTHER = 1, 2


def tenant(world: Backend, number: int) -> int:
    """As the store knows it."""
    return number if isinstance(world, MemoryBackend) else 1000 + number


def look(world: Backend, *, limit: int = 100, full: tuple[int, ...] = (FULL,), shard: int = 1) -> Due:
    numbers = frozenset(tenant(world, number) for number in full)
    return world.store.due(ReadDue(frozenset({shard}), NOON, limit, numbers))


def jobs(due: Due) -> list[int]:
    return sorted(one.work.job_id.int for one in due.jobs)


def more(world: Backend, due: Due) -> set[int]:
    """The tenants of which there is more."""
    return {known for known in (FULL, OTHER) if (tenant(world, known), 1) in due.more}


def claim(world: Backend, due: Due, *, until_s: float = 0.0) -> list[int]:
    planned = plans(list(due.jobs), epoch=1, until_s=until_s)
    world.store.claim({1: 1}, planned)
    return sorted(plan.due.work.job_id.int for plan in planned)


def flood(world: Backend, *, count: int = 12, first_s: float = -1000.0) -> None:
    for number in range(count):
        world.add(100 + number, first_s + number * 70, tenant=FULL)


def test_nothing_is_read_of_a_full_tenant_and_all_of_it_when_it_is_full_no_more(world: Backend) -> None:
    flood(world)
    world.add(1, -5, tenant=OTHER)
    owned(world)
    assert jobs(look(world)) == [1]
    assert claim(world, look(world)) == [1]
    assert jobs(look(world)) == []
    world.add(2, -900, tenant=OTHER)  # the job clock was set back, or a person asks for it
    if isinstance(world, BucketedBackend):
        world.store.take_over([1], "node-1")  # what others write is found by whoever takes the shard over
    assert jobs(look(world)) == [2]
    assert jobs(look(world, full=(OTHER,))) == [100 + number for number in range(12)]


def test_of_a_tenant_that_was_full_everything_is_claimed_in_the_end(world: Backend) -> None:
    flood(world)
    world.add(1, -5, tenant=OTHER)
    owned(world)
    taken = claim(world, look(world))
    for _ in range(20):
        taken += claim(world, look(world, full=(), limit=5))
    assert sorted(taken) == [1, *(100 + number for number in range(12))]


def test_a_read_says_of_whom_there_is_more(world: Backend) -> None:
    for number in range(8):
        world.add(100 + number, -100 + number, tenant=FULL)
    world.add(1, -5, tenant=OTHER)
    owned(world)
    found = look(world, full=(), limit=4)
    assert more(world, found) == {FULL}
    assert len(found.jobs) == 4
    whole = look(world, full=(), limit=20)
    assert whole.seen == {1}
    assert not whole.more


def test_of_one_that_has_nearly_enough_the_earliest_are_read_and_no_more_than_that(world: Backend) -> None:
    flood(world)
    for number in range(5):
        world.add(number, -5, tenant=OTHER)
    owned(world)
    most = {tenant(world, FULL): 3}
    for limit in (100, 6):
        found = world.store.due(ReadDue(frozenset({1}), NOON, limit, most=most))
        assert [number for number in jobs(found) if number >= 100] == [100, 101, 102]
        assert FULL in more(world, found)


def test_what_waits_of_a_full_tenant_is_not_told(world: Backend) -> None:
    world.add(1, 99, tenant=FULL)
    world.add(2, 99, tenant=OTHER)
    world.put(1, 1, state="parked", reason="share", wake_s=-9)
    world.put(1, 2, state="retry_wait", attempt=1, wake_s=5)
    mine = world.put(2, 3, state="parked", reason="turn", wake_s=-1)
    later = world.put(2, 4, state="retry_wait", attempt=1, wake_s=50)
    full = frozenset([tenant(world, FULL)])
    found = world.store.waiting([1], now=NOON, limit=10, full=full)
    assert [fire.id for fire in found.fires] == [mine]
    none = world.store.waiting([1], now=NOON - SECOND * 5, limit=10, full=full)
    assert (list(none.fires), none.next_at) == ([], NOON - SECOND)
    assert world.row(later) is not None


@pytest.mark.parametrize("reason", ["share", "rate", "cap", "budget"])
def test_waiting_for_a_limit_counts_for_no_lateness(world: Backend, reason: str) -> None:
    world.add(1, -500)
    fire = world.put(1, -500, state="parked", reason=reason, wake_s=-1)
    epochs = owned(world)
    world.age(300)
    (held,) = world.store.waiting([1], now=NOON, limit=10).fires
    held.epoch, held.seq = epochs[1], 1
    assert world.store.release(epochs, [held]) == {fire}
    _, (released,) = world.store.take_over([1], "node-2")
    now = world.clock.monotonic() if isinstance(world, MemoryBackend) else time.monotonic()
    assert now - released.claimed_at < 60


def test_whatever_waited_for_its_turn_with_the_last_owner_is_due_at_a_take_over(world: Backend) -> None:
    world.add(1, 99)
    turns = {world.put(1, n, state="parked", reason=reason, wake_s=7200 + n) for n, reason in enumerate(HELD_BACK)}
    for at_s, state, reason in ((11, "parked", "budget"), (12, "parked", "overlap"), (13, "retry_wait", "failed")):
        world.put(1, at_s, state=state, reason=reason, wake_s=7200)
    world.add(2, 99, shard=2)
    world.put(2, 1, state="parked", reason="share", wake_s=7200)
    if not isinstance(world, MemoryBackend):
        JobClock.objects.create(job_origin=NOON, real_origin=None)
    world.store.take_over([1], "node-1")
    found = world.store.waiting([1, 2], now=NOON + SECOND * 7199, limit=10)
    assert {fire.id for fire in found.fires} == turns


# -- Postgres: what lies in nobody's way ------------------------------------------------------------------------


@pytest.fixture(params=[PostgresBackend, BucketedBackend])
def postgres(request: pytest.FixtureRequest, committed_db: None) -> Iterator[PostgresBackend]:
    backend = request.param()
    yield backend
    backend.close()


MANY = 4000
MAKE = """
CREATE TEMP TABLE made ON COMMIT DROP AS
SELECT gen_random_uuid() AS id, %s::timestamptz + n * %s::interval AS due_at FROM generate_series(1, %s) AS n
"""
IN_ROWS = """
INSERT INTO scheduling_job (id, name, next_scheduled_for, next_fire_at, {names})
SELECT made.id, '', due_at, due_at, {columns} FROM made, scheduling_job j WHERE j.id = %s
"""
IN_BUCKETS = """
INSERT INTO scheduling_job (id, name, next_scheduled_for, next_fire_at, {names})
SELECT made.id, '', NULL, NULL, {columns} FROM made, scheduling_job j WHERE j.id = %s
"""
ENTRIES = """
INSERT INTO scheduling_entry (slot, shard_id, tenant_id, schedule_version, bucket, job_id, scheduled_for, fire_at)
SELECT second / 60 %% 64, shard_id, tenant_id, 1, second, made.id, due_at, due_at
FROM made CROSS JOIN LATERAL (SELECT floor(extract(epoch FROM due_at))::bigint AS second) AS s, scheduling_job j
WHERE j.id = %s
"""


def multiply(job: UUID, *, first_s: float, step_s: float, enter: bool) -> None:
    """Many due jobs like this one, as entries if it is one."""
    own = {"id", "name", "next_scheduled_for", "next_fire_at"}
    names = [f'"{field.column}"' for field in Job._meta.concrete_fields if field.column not in own]
    columns = {"names": ", ".join(names), "columns": ", ".join(f"j.{name}" for name in names)}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(MAKE, [NOON + SECOND * first_s, f"{step_s} s", MANY])
        cursor.execute((IN_BUCKETS if enter else IN_ROWS).format(**columns), [job])
        if enter:
            cursor.execute(ENTRIES, [job])
        cursor.execute("ANALYZE scheduling_job, scheduling_entry")


def pages_of_due(world: PostgresBackend, shard: int) -> int:
    def read(counted: object) -> None:
        world.store._link = _Link(counted)  # type: ignore[assignment]
        look(world, shard=shard)

    link = world.store._link
    try:
        return pages_of(world.store, read)
    finally:
        world.store._link = link


class _Link:
    def __init__(self, counted: object) -> None:
        self._counted = counted

    def __call__(self) -> _Link:
        return self

    def __enter__(self) -> object:
        return self._counted

    def __exit__(self, *_: object) -> None:
        return None


def test_a_table_of_the_ring_that_cannot_be_emptied_for_long_is_vacuumed_until_it_is_empty(
    committed_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucketed, "VACUUMED_FROM", 1)
    world = BucketedBackend()
    world.add(1, -1000, tenant=FULL)
    slot = Entry.objects.get().slot
    world.store.expire([1], now=NOON)
    assert is_vacuumed(slot)
    Entry.objects.all().delete()
    for _ in range(RING // bucketed.TABLES):
        world.store.expire([1], now=NOON)
    assert not is_vacuumed(slot)
    world.close()


def is_vacuumed(slot: int) -> bool:
    """By Postgres."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT reloptions FROM pg_class WHERE relname = %s", [leaf(slot)])
        return "autovacuum_enabled=false" not in cursor.fetchone()[0]


FLOODS = {"at an instant long ago": (-1000, 0), "over a quarter of an hour": (-1000, 0.24), "just now": (-0.5, 0)}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_a_full_tenant_makes_no_read_longer(postgres: PostgresBackend, flood: str) -> None:
    is_bucketed = isinstance(postgres, BucketedBackend)
    shard = 10 + 2 * [*FLOODS].index(flood) + is_bucketed
    for number in range(20):
        postgres.add(number + 2, -1, tenant=number + 2, shard=shard)
    postgres.add(1, 9999, tenant=FULL, shard=shard)
    first_s, step_s = FLOODS[flood]
    multiply(job_id(1), first_s=first_s, step_s=step_s, enter=is_bucketed)
    with connection.cursor() as cursor:  # of the dead rows that other tests have left, by which plans go, too
        cursor.execute("VACUUM (FULL, ANALYZE) scheduling_job, scheduling_entry, fairness_tenant, scheduling_calendar")
    postgres.store.take_over([shard], "node-1")
    passing_by = sum(pages_of_due(postgres, shard) for _ in range(6))
    pages = pages_of_due(postgres, shard)
    assert jobs(look(postgres, shard=shard)) == list(range(2, 22))
    assert pages < 700, f"{pages} pages for 20 jobs"
    assert passing_by < 12_000, "they are passed by once"
    assert len(look(postgres, full=(), shard=shard).jobs) == 100


COME = """
INSERT INTO fairness_tenant
SELECT (jsonb_populate_record(t, jsonb_build_object('id', 100000 + n, 'slug', 'gone-' || n))).*
FROM fairness_tenant t, generate_series(1, 500) AS n WHERE t.slug = 'default'
"""
GO = "DELETE FROM fairness_tenant WHERE id > 100000"


def test_each_head_is_read_once_where_the_planner_believes_that_there_is_one_tenant(postgres: PostgresBackend) -> None:
    with connection.cursor() as cursor:
        for statement in (COME, GO, "ANALYZE fairness_tenant"):
            cursor.execute(statement)
    shard = 30
    for number in range(1, 41):
        postgres.add(number, -1, tenant=number, shard=shard)
    postgres.store.take_over([shard], "node-1")
    for _ in range(6):
        pages = pages_of_due(postgres, shard)
    assert jobs(look(postgres, shard=shard)) == list(range(2, 41))
    assert pages < 1000, f"{pages} pages for 39 jobs"
