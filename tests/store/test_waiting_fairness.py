"""A mass of retries hides nobody's fires: not another tenant's, nor its own tenant's first attempts."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection

from scheduling.models import Job
from scheduling.store.waiting import read_waiting
from scheduling.testing.clock import NOON
from tests.claims import SECOND, job_id
from tests.store.backends import Backend, PostgresBackend
from tests.store.steps import waiting

MASS, MANY = 24, 20_000


def flood(world: Backend, *, job: int = 1, tenant: int = 1) -> None:
    """Retries that have been due for long."""
    world.add(job, 99, tenant=tenant)
    for second in range(MASS):
        world.put(job, second, state="retry_wait", attempt=1, wake_s=-1000 - second)


def test_one_tenants_mass_of_retries_hides_no_other_tenant_of_the_shard(world: Backend) -> None:
    flood(world)
    world.add(2, 99, tenant=2)
    others = {world.put(2, second, state="retry_wait", attempt=1, wake_s=-1) for second in range(3)}
    found = waiting(world, limit=10)
    assert len(found) == 10
    assert others <= {fire.id for fire in found}


@pytest.mark.parametrize("reason", ["turn", "overlap"])
def test_a_tenants_retries_leave_half_of_a_read_to_his_first_attempts(world: Backend, reason: str) -> None:
    flood(world)
    world.add(2, 99)
    for second in range(12):
        world.put(2, second, state="parked", reason=reason, wake_s=-1)
    found = waiting(world, limit=10)
    assert Counter(fire.attempt for fire in found) == {0: 5, 1: 5}


def test_what_a_person_asks_for_now_does_not_wait_behind_the_retries(world: Backend) -> None:
    flood(world)
    asked = world.put(1, 50, state="retry_wait", origin="manual:7", wake_s=0)
    assert asked in {fire.id for fire in waiting(world, limit=10)}


def test_first_attempts_take_all_the_room_that_retries_leave_and_the_reverse(world: Backend) -> None:
    world.add(1, 99)
    for second in range(8):
        world.put(1, second, state="parked", reason="turn", wake_s=-1)
    world.put(1, 20, state="retry_wait", attempt=1, wake_s=-9)
    assert Counter(fire.attempt for fire in waiting(world, limit=6)) == {0: 5, 1: 1}
    assert len(waiting(world, limit=100)) == 9


@pytest.fixture
def postgres(committed_db: None) -> PostgresBackend:
    return PostgresBackend()


def test_a_mass_of_due_retries_of_one_tenant_makes_no_read_longer(postgres: PostgresBackend) -> None:
    """What a read touches is counted, not timed."""
    postgres.add(1, 99)
    postgres.add(2, 99, tenant=2)
    other = postgres.put(2, state="retry_wait", attempt=1, wake_s=-1)
    before = pages_of_a_read(postgres)
    multiply(MANY)
    after, found = pages_of_a_read(postgres), waiting(postgres, limit=10)
    assert other in {fire.id for fire in found}
    assert after < 3 * before + 300, f"{before} pages beside one retry, {after} beside {MANY:,}"
    postgres.close()


def multiply(count: int) -> None:
    """So many due retries of job 1."""
    job = Job.objects.select_related("tenant").get(pk=job_id(1))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduling_fire (id, job_id, tenant_id, shard_id, history_days, scheduled_for, fire_at,"
            " schedule_version, state, reason, attempt, max_attempts, wake_at)"
            " SELECT gen_random_uuid(), %s, %s, %s, %s, at, at, 1, 'retry_wait', 'failed', 1, 3, at"
            " FROM (SELECT %s::timestamptz + n * interval '1 millisecond' AS at FROM generate_series(1, %s) n) AS s",
            [job.pk, job.tenant_id, job.shard_id, job.tenant.history_days, NOON - timedelta(hours=1), count],
        )
        cursor.execute("ANALYZE scheduling_fire")


def pages_of_a_read(backend: PostgresBackend) -> int:
    pages = 0
    with backend.store._link() as session:

        class Explained:
            """Runs a statement, and counts the pages that it touches."""

            def execute(self, statement: str, values: dict) -> object:
                nonlocal pages
                plan = session.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode(), values)
                (top,) = plan.fetchone()[0]  # type: ignore[index]
                pages += top["Plan"]["Shared Hit Blocks"] + top["Plan"]["Shared Read Blocks"]
                return session.execute(statement.encode(), values)

        read_waiting(Explained(), backend.store._sql, [1], now=NOON + SECOND, limit=10)  # type: ignore[arg-type]
    return pages
