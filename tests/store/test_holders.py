"""A run beyond its lease and grace is ended though somebody holds its row: whoever does is ended first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from django.db import connection

from scheduling.core.lost_lease import LostRun
from scheduling.models import DeadLetter, Fire
from scheduling.store.connection import connector
from scheduling.store.polling import PollingStore
from scheduling.store.postgres import PostgresStore
from scheduling.testing.clock import NOON, ManualClock
from tests.processes import eventually
from tests.store.backends import SHARDS, PostgresBackend
from tests.store.sessions import OpenSession
from tests.store.steps import owned

GRACE = timedelta(milliseconds=200)


@pytest.fixture
def world(committed_db: None) -> Iterator[PostgresBackend]:
    backend = PostgresBackend()
    backend.add(1, 99)
    yield backend
    backend.close()


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    made = PostgresStore(connector(connection.get_connection_params(), name="impatient"), grace=GRACE)
    yield made
    made.close()


def held(session: psycopg.Connection, fire: UUID) -> None:
    """In the middle of a completion whose commit never comes."""
    session.execute("BEGIN")
    session.execute("UPDATE scheduling_fire SET state = 'succeeded', lease_until = NULL WHERE id = %s", [fire])


def test_a_session_that_holds_a_run_beyond_its_lease_is_ended_and_the_run_with_it(
    world: PostgresBackend, store: PostgresStore, open_session: OpenSession
) -> None:
    fire = world.put(1, state="running", attempt=1, lease_over_s=6)
    epochs = owned(world)
    worker = open_session("a worker that froze")
    held(worker, fire)
    assert store.reap(epochs, now=NOON) == [], "nobody is waited for"

    def reaped() -> list[LostRun]:
        return store.reap(epochs, now=NOON)

    (lost,) = eventually(reaped, interval_s=0.1)
    assert (lost.fire_id, lost.state, lost.tenant, lost.task) == (fire, "retry_wait", "tenant-1", "tests.none")
    with pytest.raises(psycopg.OperationalError):
        worker.execute("COMMIT")


def test_a_short_transaction_is_left_alone(
    world: PostgresBackend, open_session: OpenSession, caplog: pytest.LogCaptureFixture
) -> None:
    """Its holder has had it for less than the grace: a heartbeat, or a person."""
    fire = world.put(1, state="running", attempt=1, lease_over_s=60)
    epochs = owned(world)
    person = open_session("a person")
    held(person, fire)
    grace = timedelta(seconds=50)  # which a busy machine does not use up before it looks
    store = PostgresStore(connector(connection.get_connection_params(), name="patient"), grace=grace)
    assert store.reap(epochs, now=NOON) == []
    eventually(lambda: "still locked" in caplog.text)
    store.close()
    person.execute("COMMIT")
    assert Fire.objects.get(pk=fire).state == "succeeded"


def test_at_stop_2_a_poll_sees_to_it(world: PostgresBackend, open_session: OpenSession) -> None:
    fire = world.put(1, state="running", attempt=1, lease_over_s=6)
    held(open_session("a worker that froze"), fire)
    poller = PollingStore(
        connector(connection.get_connection_params(), name="impatient"), shards=SHARDS, grace=GRACE, confirm_s=30
    )

    def reaped() -> list[LostRun]:
        poller.poll(ManualClock(), limit=10)
        return poller.lost_runs()

    assert [lost.fire_id for lost in eventually(reaped, interval_s=0.1)] == [fire]
    assert poller.lost_runs() == [], "they are told once"
    poller.close()


def test_a_run_without_attempts_left_leaves_a_dead_letter(world: PostgresBackend) -> None:
    fire = world.put(1, state="running", attempt=3, max_attempts=3, lease_over_s=60)
    (lost,) = world.store.reap(owned(world), now=NOON)
    assert (lost.state, lost.reason) == ("dead", "attempts_exhausted")
    letter = DeadLetter.objects.get()
    assert (letter.fire_id, letter.reason, letter.error) == (fire, "attempts_exhausted", "the lease ran out")
    assert (letter.fence, letter.attempts, letter.task) == (2, 3, "tests.none")
