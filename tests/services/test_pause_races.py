"""Services against claims, workers, owners and each other, on real sessions: what waits for what, and who wins."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import connection, transaction

from scheduling.models import Fire, Job, JobClock
from scheduling.models.hints import CHANNEL
from scheduling.services.backfill import backfill
from scheduling.services.pause import pause
from scheduling.services.resume import resume
from scheduling.services.run_now import run_now
from scheduling.store.connection import Connection
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Refusal, Refused
from scheduling.store.statements import statements
from scheduling.testing.clock import NOON
from tests.claims import SECOND, job_id
from tests.fires import delivery_of
from tests.processes import PATIENCE_S
from tests.store.backends import PostgresBackend, plans
from tests.store.sessions import InThread, OpenSession, begin_claim, until_someone_waits
from tests.store.steps import due, owned

LEASE = timedelta(seconds=30)


@pytest.fixture
def world(committed_db: None) -> Iterator[PostgresBackend]:
    backend = PostgresBackend()
    yield backend
    backend.store.close()


def the_job() -> Job:
    return Job.objects.get(pk=job_id(1))


def paused() -> int:
    return pause([the_job()], reason="x", by="y").skipped


def resumed() -> int:
    return resume([the_job()], by="y", catch_up="latest").fires


def states() -> list[str]:
    return [f"{fire.state} {fire.reason}".strip() for fire in Fire.objects.order_by("scheduled_for")]


def begin_acquire(session: Connection, fire: UUID) -> None:
    """Everything of an acquire but its commit."""
    row = Fire.objects.get(pk=fire)
    delivery = delivery_of(row)
    session.execute("BEGIN")
    values: dict[str, Any] = {
        "fire_id": delivery.fire_id,
        "job_id": delivery.job_id,
        "scheduled_for": delivery.scheduled_for,
        "history_days": delivery.history_days,
        "fence": delivery.fence,
        "holder": delivery.holder,
        "lease": LEASE,
        "tenant_id": row.tenant_id,
        "asked_for": "",
    }
    assert session.execute(statements("ledger")["acquire"], values).fetchone() is not None


# -- pause -----------------------------------------------------------------------------------------------------------


def test_a_pause_waits_for_a_claim_in_flight_and_stops_what_it_claimed(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    world.add(1)
    epochs = owned(world)
    session = open_session("owner")
    begin_claim(session, epochs, plans(due(world), epoch=epochs[1]))
    pausing = in_thread(paused)
    until_someone_waits()
    session.execute("COMMIT")
    assert pausing.result() == 1
    assert states() == ["skipped paused"]


def test_a_claim_leaves_what_is_being_paused_to_the_next_poll_and_then_records_it_as_paused(
    world: PostgresBackend, in_thread: InThread
) -> None:
    world.add(1)
    epochs = owned(world)
    with transaction.atomic():
        paused()
        planned = plans(due(world), epoch=epochs[1])
        assert in_thread(world.another("owner").claim, epochs, planned).result(timeout=PATIENCE_S) == {}
    assert world.store.claim(epochs, plans(due(world), epoch=epochs[1])) == {}
    assert states() == ["skipped paused"]


def test_a_pause_waits_for_an_acquire_in_flight_and_leaves_it_its_run(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    world.add(1, 99)
    fire = world.put(1, state="claimed")
    worker = open_session("a worker")
    begin_acquire(worker, fire)
    pausing = in_thread(paused)
    until_someone_waits()
    worker.execute("COMMIT")
    assert pausing.result() == 0
    assert states() == ["running"]


def test_an_acquire_waits_for_a_pause_in_flight_and_is_refused(world: PostgresBackend, in_thread: InThread) -> None:
    world.add(1, 99)
    delivery = delivery_of(Fire.objects.get(pk=world.put(1, state="claimed")))
    ledger = PostgresLedger("default", lease=LEASE)
    with transaction.atomic():
        assert paused() == 1
        acquiring = in_thread(ledger.acquire, delivery)
        until_someone_waits()
    assert acquiring.result() == Refused(Refusal.DONE)
    assert states() == ["skipped paused"]


def test_a_message_of_before_the_pause_is_stale_once_its_fire_came_back(world: PostgresBackend) -> None:
    stand_at_noon()
    world.add(1, 99)
    message = delivery_of(Fire.objects.get(pk=world.put(1, -9, state="claimed")))
    paused()
    assert resumed() == 1
    ledger = PostgresLedger("default", lease=LEASE)
    assert ledger.acquire(message) == Refused(Refusal.STALE_FENCE)
    Fire.objects.update(state="claimed", wake_at=None)  # its owner has released it
    assert isinstance(ledger.acquire(delivery_of(Fire.objects.get())), Acquired)


def test_a_claim_beside_a_pause_that_waits_claims_what_the_pause_has_not_reached_and_neither_is_a_victim(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    """The pause wants both jobs and waits for the first; the claim waits for none: neither can wait for the other."""
    world.add(1, 1)
    world.add(2, 0)
    epochs = owned(world)
    planned = plans(due(world, until_s=1), epoch=1, until_s=1)
    first = open_session("holds the first job")
    first.execute("BEGIN")
    first.execute("SELECT FROM scheduling_job WHERE id = %s FOR UPDATE", [job_id(1)])
    pausing = in_thread(lambda: pause(Job.objects.all(), reason="x", by="y").jobs)
    until_someone_waits()
    claimed = in_thread(world.another("owner").claim, epochs, planned).result(timeout=PATIENCE_S)
    assert len(claimed) == 1
    first.execute("COMMIT")
    assert pausing.result() == 2
    assert states() == ["skipped paused"]


# -- resume ----------------------------------------------------------------------------------------------------------


def test_of_two_who_resume_at_once_one_brings_back_what_was_missed(world: PostgresBackend, in_thread: InThread) -> None:
    make_missed(world)
    with transaction.atomic():
        assert resumed() == 1
        other = in_thread(resumed)
        until_someone_waits()
    assert other.result() == 0
    assert Fire.objects.get().fence == 2


def test_a_resume_waits_for_an_owner_that_ends_the_pause_and_finds_it_ended(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    make_missed(world)
    Job.objects.update(paused_until=NOON, catch_up="all")
    owner = open_session("owner")
    owner.execute("BEGIN")
    pauses_sql = statements("pauses")
    owner.execute(pauses_sql["over"], {"shards": [1], "now": NOON, "limit": 9})
    resuming = in_thread(resumed)
    until_someone_waits()
    ended = owner.execute(pauses_sql["end"], {"job_ids": [job_id(1)], "now": NOON}).fetchall()
    owner.execute("COMMIT")  # before anything is asserted: whoever resumes waits for it
    assert [(job, fires) for job, fires, _ in ended] == [(job_id(1), 1)]
    assert resuming.result() == 0
    assert Fire.objects.get().fence == 2


def test_an_owner_passes_over_a_pause_that_someone_is_ending(world: PostgresBackend, in_thread: InThread) -> None:
    make_missed(world)
    epochs = owned(world)
    Job.objects.update(paused_until=NOON, catch_up="all")
    with transaction.atomic():
        resume([the_job()], by="y")
        assert in_thread(world.another("owner").reap, epochs, now=NOON).result(timeout=PATIENCE_S) == []
    assert states() == ["skipped paused"]


def make_missed(world: PostgresBackend) -> None:
    """A paused job, and one occurrence that the pause took."""
    stand_at_noon()
    world.add(1, 99)
    world.put(1, -9, state="claimed")
    assert paused() == 1


def stand_at_noon() -> None:
    JobClock.objects.create(job_origin=NOON)


# -- run now, backfill -----------------------------------------------------------------------------------------------


def test_one_request_that_comes_twice_at_once_makes_one_fire(world: PostgresBackend, in_thread: InThread) -> None:
    world.add(1, 99)
    request = uuid4()
    with transaction.atomic():
        [first] = run_now([the_job()], by="y", request=request)
        other = in_thread(run_now, [the_job()], by="y", request=request)
        until_someone_waits()
    [second] = other.result()
    assert (first.is_new, second.is_new, first.fire_id) == (True, False, second.fire_id)
    assert Fire.objects.count() == 1


def test_a_worker_may_acquire_while_someone_asks_for_a_run(world: PostgresBackend, in_thread: InThread) -> None:
    world.add(1, 99)
    delivery = delivery_of(Fire.objects.get(pk=world.put(1, state="claimed")))
    ledger = PostgresLedger("default", lease=LEASE)
    with transaction.atomic():
        run_now([the_job()], by="y")
        assert isinstance(in_thread(ledger.acquire, delivery).result(timeout=PATIENCE_S), Acquired)


def test_the_owner_is_told_of_what_is_due_at_once(world: PostgresBackend) -> None:
    world.add(1, 99, shard=3)
    Job.objects.update(anchor=NOON - SECOND * 600)
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as session:
        session.execute(f"LISTEN {CHANNEL}")

        def heard() -> str:
            return next(iter(session.notifies(timeout=PATIENCE_S, stop_after=1))).payload

        run_now([the_job()], by="y")
        assert heard() == "3"
        paused()
        with_hint(lambda: resume([the_job()], by="y"))
        assert heard() == "3"
        with_hint(lambda: backfill(the_job(), start=NOON - SECOND * 120, until=NOON, by="y"))
        assert heard() == "3"


def with_hint(call: Any) -> None:
    """One process hints a shard rarely: as if the last hint were long ago."""
    from scheduling.models import hints

    hints._hinted_at.clear()
    call()
