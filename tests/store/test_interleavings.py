"""Two sessions of the database in each other's way: what waits for what, and what is never lost by it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from threading import Event

import psycopg
import pytest
from django.db import connection, transaction

from scheduling.core.errors import StaleEpoch
from scheduling.models import Fire, Job
from scheduling.store import partitions
from scheduling.store.connection import Link, connector
from scheduling.store.port import StoreUnavailable
from scheduling.testing.clock import NOON
from tests.claims import job_id
from tests.processes import PATIENCE_S, eventually
from tests.store.backends import SHARDS, PostgresBackend, plans
from tests.store.sessions import (
    SQL,
    InThread,
    OpenSession,
    begin_claim,
    until_someone_waits,
)
from tests.store.steps import due, owned


@pytest.fixture
def world(committed_db: None) -> Iterator[PostgresBackend]:
    backend = PostgresBackend()
    yield backend
    backend.close()


# -- take-over against claim -----------------------------------------------------------------------------------------


def test_a_take_over_waits_for_an_open_claim_and_recovers_what_it_claimed(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    world.add(1)
    epochs = owned(world)
    planned = plans(due(world), epoch=epochs[1])
    session = open_session("old owner")
    begin_claim(session, epochs, planned)
    taking = in_thread(world.another("new").take_over, [1], "node-2")
    until_someone_waits()
    session.execute("COMMIT")
    taken, recovered = taking.result()
    assert taken == {1: 2}
    assert [(fire.id, fire.fence, fire.seq) for fire in recovered] == [(planned[0].rows[0].fire.id, 2, 1)]


def test_a_claim_that_comes_while_a_take_over_is_open_is_refused_and_its_job_is_claimed_by_the_new_owner(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    world.add(1)
    epochs = owned(world)
    planned = plans(due(world), epoch=epochs[1])
    session = open_session("new owner")
    session.execute("BEGIN")
    session.execute(SQL["take_over"], {"shards": [1], "node": "node-2"})
    claiming = in_thread(world.another("old").claim, epochs, planned)
    until_someone_waits()
    session.execute("COMMIT")
    with pytest.raises(StaleEpoch):
        claiming.result()
    assert not Fire.objects.exists()
    assert len(world.store.claim({1: 2}, plans(due(world), epoch=2))) == 1


def test_a_claim_in_doubt_is_settled_by_taking_over_again(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    """The reply to the commit is lost: the take-over waits for the transaction, whatever becomes of it."""
    world.add(1)
    epochs = owned(world)
    planned = plans(due(world), epoch=epochs[1])
    for end, recovered in (("ROLLBACK", 0), ("COMMIT", 1)):
        session = open_session("in doubt")
        begin_claim(session, epochs, planned)
        taking = in_thread(world.another("again").take_over, [1], "node-1")
        until_someone_waits()
        session.execute(end)
        epochs, fires = taking.result()
        assert len(fires) == recovered
        planned = plans(due(world), epoch=epochs[1])
    assert planned == []


def test_a_node_that_is_frozen_inside_a_transaction_is_ended_by_the_take_over(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    world.add(1)
    epochs = owned(world)
    frozen = open_session("frozen")
    begin_claim(frozen, epochs, plans(due(world), epoch=epochs[1]))
    before = time.monotonic()
    taken, recovered = world.another("new").take_over([1], "node-2")
    assert 0.4 < time.monotonic() - before < 3
    assert (taken, recovered) == ({1: 2}, [])
    with pytest.raises(psycopg.OperationalError):
        frozen.execute("COMMIT")
    assert not Fire.objects.exists()
    assert len(world.store.claim(taken, plans(due(world), epoch=2))) == 1


def test_a_take_over_ends_no_session_that_is_not_a_nodes(
    world: PostgresBackend, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned(world)
    new, looked = world.another("new"), Event()
    look = new._end_blockers

    def look_and_tell(pid: int) -> None:
        look(pid)
        looked.set()

    monkeypatch.setattr(new, "_end_blockers", look_and_tell)
    with psycopg.connect(**connection.get_connection_params()) as person:
        person.execute("SELECT FROM scheduling_shard WHERE id = 1 FOR SHARE")
        taking = in_thread(new.take_over, [1], "node-2")
        assert looked.wait(PATIENCE_S)  # for nodes that block it
        person.execute("SELECT 1")
        person.rollback()
    assert taking.result()[0] == {1: 2}


def test_a_node_that_idles_in_a_transaction_is_ended_by_its_server_and_connects_again(world: PostgresBackend) -> None:
    link = Link(connector(connection.get_connection_params(), name="frozen"))
    with link() as session:
        session.execute("SET idle_in_transaction_session_timeout = '50ms'")
        session.execute("BEGIN")
        session.execute("SELECT 1")
    pid = session.info.backend_pid
    eventually(lambda: not _lives(pid))
    with pytest.raises(StoreUnavailable), link() as session:
        session.execute("SELECT 1")
    with link() as session:
        assert session.info.backend_pid != pid
    link.close()


def _lives(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid])
        return cursor.fetchone() is not None


def test_a_take_over_locks_shards_in_the_order_of_claims_so_that_neither_is_a_victim(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    epochs = owned(world, 2, 3)
    with connection.cursor() as cursor:  # shard 2 now lies behind shard 3 in the table
        cursor.execute("UPDATE scheduling_shard SET owner_id = owner_id WHERE id = 2")
    first, both = open_session("one shard"), open_session("both shards")
    hold = SQL["hold_epochs"]
    first.execute("BEGIN")
    first.execute(hold, {"shards": [2], "epochs": [epochs[2]]})
    taking = in_thread(world.another("new").take_over, [2, 3], "node-2")
    until_someone_waits()
    both.execute("BEGIN")
    both.execute(hold, {"shards": [2, 3], "epochs": [epochs[2], epochs[3]]})
    both.execute("COMMIT")
    first.execute("COMMIT")
    assert taking.result()[0] == {2: 2, 3: 2}


# -- people against claim --------------------------------------------------------------------------------------------


def pause(number: int) -> int:
    """As a service does: lock the job, then look at its fires; gives how many it has stopped."""
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job_id(number))
        Job.objects.filter(pk=job.pk).update(paused_at=NOON)
        waits = Fire.objects.filter(job=job, attempt=0, origin="", state__in=["claimed", "parked"])
        return waits.update(state="skipped", reason="paused", wake_at=None)


def test_a_pause_waits_for_a_claim_in_flight_and_stops_what_it_claimed(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    world.add(1)
    epochs = owned(world)
    session = open_session("owner")
    begin_claim(session, epochs, plans(due(world), epoch=epochs[1]))
    pausing = in_thread(pause, 1)
    until_someone_waits()
    session.execute("COMMIT")
    assert pausing.result() == 1
    assert [(f.state, f.reason) for f in Fire.objects.all()] == [("skipped", "paused")]


def test_a_claim_leaves_a_job_that_is_being_paused_to_the_next_poll_and_then_records_it_as_paused(
    world: PostgresBackend, in_thread: InThread
) -> None:
    world.add(1)
    world.add(2)
    epochs = owned(world)
    planned = plans(due(world), epoch=epochs[1])
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=job_id(1))
        Job.objects.filter(pk=job_id(1)).update(paused_at=NOON)
        claimed = in_thread(world.another("owner").claim, epochs, planned).result(timeout=PATIENCE_S)
    assert len(claimed) == 1
    assert [fire.job_id for fire in Fire.objects.all()] == [job_id(2)]
    assert world.another("owner").claim(epochs, plans(due(world), epoch=epochs[1])) == {}
    assert [(f.state, f.reason) for f in Fire.objects.filter(job=job_id(1))] == [("skipped", "paused")]


def test_a_claim_leaves_a_job_that_is_being_edited_to_its_new_schedule(
    world: PostgresBackend, in_thread: InThread
) -> None:
    world.add(1)
    epochs = owned(world)
    planned = plans(due(world), epoch=epochs[1])
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job_id(1))
        job.every = timedelta(minutes=2)
        job.save()
        assert in_thread(world.another("owner").claim, epochs, planned).result(timeout=PATIENCE_S) == {}
    assert world.another("owner").claim(epochs, planned) == {}
    assert not Fire.objects.exists()


def test_an_acquire_before_the_take_over_keeps_its_run_and_one_after_it_is_stale(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    world.add(1)
    owned(world)
    early = world.put(1, 1, state="claimed", number=(1, 1))
    late = world.put(1, 2, state="claimed", number=(1, 2))
    acquire = (
        "UPDATE scheduling_fire SET state = 'running', attempt = 1, holder = gen_random_uuid(),"
        " started_at = clock_timestamp(), lease_until = clock_timestamp() + interval '30 s'"
        " WHERE id = %s AND state = 'claimed' AND fence = 1"
    )
    worker = open_session("a worker")
    worker.execute("BEGIN")
    worker.execute(acquire, [early])
    taking = in_thread(world.another("new").take_over, [1], "node-2")
    until_someone_waits()
    worker.execute("COMMIT")
    _, recovered = taking.result()
    assert [fire.id for fire in recovered] == [late]
    assert worker.execute(acquire, [late]).rowcount == 0
    row = world.row(early)
    assert row is not None
    assert (row.state, row.fence) == ("running", 1)


# -- partitions ------------------------------------------------------------------------------------------------------


def test_two_sessions_that_need_the_same_new_days_both_get_them(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    first, second = open_session("first"), open_session("second")
    for number in range(1, 11):
        day = (7, NOON.date().replace(year=2031, day=number))
        first.execute("BEGIN")
        partitions.ensure(first, [day])
        making = in_thread(partitions.ensure, second, [day])
        until_someone_waits()
        first.execute("COMMIT")
        making.result()
    made = second.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'scheduling_fire_7_203103__'").fetchone()
    assert made == (10,)


def test_a_claim_goes_on_while_a_partition_is_made(
    world: PostgresBackend, open_session: OpenSession, in_thread: InThread
) -> None:
    world.add(1)
    epochs = owned(world)
    planned = plans(due(world), epoch=epochs[1])
    world.put(1, 500, state="succeeded", attempt=1)  # its day exists
    maker = open_session("maker")
    maker.execute("BEGIN")
    partitions.ensure(maker, [(7, NOON.date().replace(year=2032))])
    world.store._days._known.add((30, NOON.date()))
    assert len(in_thread(world.store.claim, epochs, planned).result(timeout=PATIENCE_S)) == 1
    maker.execute("ROLLBACK")


def test_a_day_that_is_read_is_not_dropped_and_holds_nobody_up(
    world: PostgresBackend, open_session: OpenSession
) -> None:
    world.add(1)
    world.put(1, state="succeeded", attempt=1)
    reader = open_session("reader")
    reader.execute("BEGIN")
    reader.execute("SELECT FROM scheduling_fire_30_20260302")
    before = time.monotonic()
    dropped = world.store.expire(range(SHARDS), now=NOON.replace(year=2028))
    assert "scheduling_fire_30_20260302" not in dropped
    assert time.monotonic() - before < 5
    reader.execute("COMMIT")
    assert "scheduling_fire_30_20260302" in world.store.expire(range(SHARDS), now=NOON.replace(year=2028))


def test_a_day_that_another_node_dropped_is_made_again_by_one_that_knew_it(world: PostgresBackend) -> None:
    world.add(1)
    world.add(2, 1)
    epochs = owned(world)
    assert len(world.store.claim(epochs, plans(due(world), epoch=1))) == 1
    Fire.objects.update(state="succeeded", attempt=1)
    other = world.another("other")
    assert "scheduling_fire_30_20260302" in other.expire(range(SHARDS), now=NOON.replace(year=2028))
    other.close()
    assert len(world.store.claim(epochs, plans(due(world, until_s=1), epoch=1, first=2, until_s=1))) == 1
