"""Stop 2: any number of pollers share what is due, without owners; and the way from and to a stop that has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import psycopg
import pytest
from django.db import connection

from scheduling.core.fire import Fire as HeldFire
from scheduling.models import Fire, Job
from scheduling.store import polling
from scheduling.store.connection import connector
from scheduling.store.polling import PollingStore
from scheduling.store.port import StoreUnavailable
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import SECOND, job_id
from tests.store.backends import SHARDS, PostgresBackend, plans
from tests.store.sessions import InThread, OpenSession
from tests.store.steps import due, owned

Pollers = Callable[[str], PollingStore]


@pytest.fixture
def world(committed_db: None) -> Iterator[PostgresBackend]:
    backend = PostgresBackend()
    yield backend
    backend.close()


@pytest.fixture
def pollers(world: PostgresBackend) -> Iterator[Pollers]:
    made: list[PollingStore] = []

    def make(name: str) -> PollingStore:
        connect = connector(connection.get_connection_params(), name=name)
        made.append(PollingStore(connect, shards=SHARDS, grace=timedelta(seconds=5), confirm_s=30))
        return made[-1]

    yield make
    for store in made:
        store.close()


def poll(store: PollingStore, *, at_s: float = 0.0, limit: int = 100) -> list[HeldFire]:
    return store.poll(ManualClock(NOON + SECOND * at_s), limit=limit)


def miss_the_deadline() -> None:
    """Nothing that is claimed has been confirmed in time."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_fire SET claimed_until = clock_timestamp() - interval '1 s'")


def row(fire: HeldFire) -> Fire:
    return Fire.objects.get(pk=fire.id)


def test_a_poll_claims_what_is_due_and_says_by_when_it_must_be_confirmed(world, pollers) -> None:
    world.add(1)
    world.add(2, 1)
    (fire,) = poll(pollers("a"))
    assert (fire.work.job_id, fire.fence) == (job_id(1), 1)
    stored = row(fire)
    assert (stored.state, stored.seq, stored.confirmed) == ("claimed", None, False)
    assert stored.claimed_until is not None
    assert stored.claimed_at is not None
    assert stored.claimed_until - stored.claimed_at == pytest.approx(timedelta(seconds=30), abs=timedelta(seconds=1))
    assert poll(pollers("b")) == []


def test_pollers_at_once_share_what_is_due_and_claim_nothing_twice(world, pollers, in_thread: InThread) -> None:
    for number in range(60):
        world.add(number, -number / 100, shard=number % SHARDS, tenant=number % 3)

    def drain(store: PollingStore) -> list[HeldFire]:
        found = [poll(store, limit=7)]
        while found[-1]:
            found.append(poll(store, limit=7))
        return [fire for fires in found for fire in fires]

    first, second = (in_thread(drain, pollers(name)) for name in "ab")
    fires = [fire.id for fire in (*first.result(), *second.result(), *drain(pollers("c")))]
    assert len(fires) == len(set(fires)) == 60
    assert Fire.objects.count() == 60


def test_a_poll_waits_for_no_other_and_takes_what_that_one_has_not_locked(
    world, pollers, open_session: OpenSession
) -> None:
    world.add(1)
    world.add(2)
    other = open_session("another poller")
    other.execute("BEGIN")
    other.execute("SELECT FROM scheduling_job WHERE id = %s FOR UPDATE", [job_id(1)])
    assert [fire.work.job_id for fire in poll(pollers("a"))] == [job_id(2)]
    other.execute("COMMIT")
    assert [fire.work.job_id for fire in poll(pollers("a"))] == [job_id(1)]


def test_a_waiting_fire_is_left_alone_while_another_poller_claims_its_job(
    world, pollers, open_session: OpenSession
) -> None:
    """Or both would see nothing ahead of theirs: what the other claims is not committed yet."""
    world.add(1, overlap="buffer_one")
    manual = world.put(1, 30, state="retry_wait", origin="manual:1", wake_s=0)
    other = open_session("another poller")
    other.execute("BEGIN")
    other.execute("SELECT FROM scheduling_job WHERE id = %s FOR UPDATE", [job_id(1)])
    assert poll(pollers("a")) == []
    other.execute("ROLLBACK")
    first = poll(pollers("a"))
    assert [fire.scheduled_for for fire in first] == [NOON]
    assert Fire.objects.get(pk=manual).reason == "overlap"


def test_a_worker_that_acquires_does_not_keep_a_retry_of_the_same_job_from_a_poll(
    world, pollers, open_session: OpenSession
) -> None:
    world.add(1, 50)
    retry = world.put(1, state="retry_wait", attempt=1, wake_s=0)
    worker = open_session("a worker")
    worker.execute("BEGIN")
    worker.execute("SELECT FROM scheduling_job WHERE id = %s FOR KEY SHARE", [job_id(1)])
    assert [fire.id for fire in poll(pollers("a"))] == [retry]


def test_what_may_not_overlap_goes_out_one_at_a_time_and_in_order(world, pollers) -> None:
    world.add(1, overlap="buffer_all")
    store = pollers("a")
    first, second = poll(store), poll(store, at_s=60)
    assert [fire.scheduled_for for fire in first] == [NOON]
    assert second == []
    assert Fire.objects.get(scheduled_for=NOON + SECOND * 60).state == "parked"
    Fire.objects.filter(pk=first[0].id).update(state="succeeded", attempt=1)
    assert [fire.scheduled_for for fire in poll(store, at_s=61)] == [NOON + SECOND * 60]


def test_one_poll_takes_no_more_waiting_fires_than_its_limit_of_all_shards_together(world, pollers) -> None:
    for shard in range(SHARDS):
        world.add(shard, 99, shard=shard)
        for second in range(10):
            world.put(shard, second, state="retry_wait", attempt=1, wake_s=0)
    found = poll(pollers("a"), limit=8)
    assert len(found) == 8
    assert Fire.objects.filter(state="claimed").count() == 8


def test_what_is_not_confirmed_by_its_deadline_is_taken_by_any_poller_under_a_higher_fence(world, pollers) -> None:
    world.add(1)
    world.add(2)
    a, b = pollers("a"), pollers("b")
    late, confirmed = poll(a)
    a.confirm([confirmed])
    assert poll(b) == []
    miss_the_deadline()
    Fire.objects.filter(pk=confirmed.id).update(claimed_until=None)
    (again,) = poll(b)
    assert (again.id, again.fence) == (late.id, 2)
    assert poll(b) == []
    a.confirm([late])  # the old copy's confirm comes at last
    assert row(late).confirmed is False
    b.confirm([again])
    assert row(late).confirmed is True


def test_a_poll_that_failed_claims_nothing_and_forgets_the_day_that_it_made(
    world, pollers, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add(1)
    connection.cursor().execute("DROP TABLE IF EXISTS scheduling_fire_30_20260302, scheduling_jobrun_30_20260302")
    store = pollers("a")

    def broken(*_: object, **__: object) -> int:
        raise psycopg.OperationalError("the server is gone")

    with monkeypatch.context() as patch:
        patch.setattr(polling, "reap", broken)
        with pytest.raises(StoreUnavailable):
            poll(store)
    assert Job.objects.get().next_scheduled_for == NOON
    assert len(poll(store)) == 1


def test_a_poller_makes_a_day_again_that_another_has_dropped(world, pollers) -> None:
    world.add(1)
    world.add(2, 1)
    a, b = pollers("a"), pollers("b")
    assert len(poll(a)) == 1
    Fire.objects.update(state="succeeded", attempt=1)
    assert "scheduling_fire_30_20260302" in b.expire(ManualClock(NOON + timedelta(days=400)))
    assert len(poll(a, at_s=1)) == 1


def test_expired_leases_are_ended_by_a_poll(world, pollers) -> None:
    world.add(1, 99)
    fire = world.put(1, state="running", attempt=1, lease_over_s=6)
    poll(pollers("a"))
    assert (Fire.objects.get(pk=fire).state, Fire.objects.get(pk=fire).reason) == ("retry_wait", "lease_lost")
    assert [found.id for found in poll(pollers("a"))] == [fire]


# -- from one stop to another ----------------------------------------------------------------------------------------


def test_from_stop_3_to_2_what_lies_beyond_the_watermarks_is_adopted_and_nothing_else(world, pollers) -> None:
    world.add(1, 99)
    world.store.record(owned(world), {1: 5})
    published = world.put(1, 1, state="claimed", number=(1, 5))
    beyond = world.put(1, 2, state="claimed", number=(1, 6))
    store = pollers("a")
    assert poll(store) == []
    store.adopt()
    (fire,) = poll(store)
    assert (fire.id, fire.fence) == (beyond, 2)
    assert Fire.objects.get(pk=published).fence == 1


def test_a_poller_that_starts_adopts_nothing_of_a_living_one(world, pollers) -> None:
    world.add(1)
    world.add(2)
    a, b = pollers("a"), pollers("b")
    open_, confirmed = poll(a)
    a.confirm([confirmed])
    b.adopt()
    assert poll(b) == []
    assert (row(open_).fence, row(confirmed).fence) == (1, 1)


def test_from_stop_2_to_3_a_take_over_recovers_what_is_not_confirmed(world, pollers) -> None:
    world.add(1)
    world.add(2)
    store = pollers("a")
    lost, confirmed = poll(store)
    store.confirm([confirmed])
    _, recovered = world.store.take_over([1], "node-1")
    assert [(fire.id, fire.fence, fire.seq) for fire in recovered] == [(lost.id, 2, 1)]
    assert row(lost).claimed_until is None


def test_what_stop_2_confirmed_is_not_published_again_at_stop_3_whatever_number_it_had_before(world, pollers) -> None:
    world.add(1, 99)
    owned(world)
    world.put(1, state="claimed", number=(1, 6))
    store = pollers("a")
    store.adopt()
    (fire,) = poll(store)
    store.confirm([fire])
    assert world.store.take_over([1], "node-1")[1] == []


def test_what_a_newer_schedule_revives_at_stop_3_is_not_taken_for_confirmed_at_stop_2(world, pollers) -> None:
    world.add(1)
    store = pollers("a")
    (fire,) = poll(store)
    store.confirm([fire])
    world.change(1, edited=True)
    epochs = owned(world)
    assert len(world.store.claim(epochs, plans(due(world), epoch=1))) == 1
    store.adopt()
    assert [(found.id, found.fence) for found in poll(store)] == [(fire.id, 3)]
