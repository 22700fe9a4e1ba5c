"""The ledger against other sessions of the database: what waits for what, and who wins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, connections, transaction

from scheduling.core.errors import LeaseLost
from scheduling.core.fire import State
from scheduling.models import DeadLetter, Fire, Job, JobRun, Step
from scheduling.store.ledger_port import Acquired, Failure, Refusal, Refused
from tests import committed
from tests.fires import NOON, delivery_of, make_fire, make_job
from tests.processes import PATIENCE_S, eventually
from tests.store.ledger_plans import acquired

pytestmark = pytest.mark.usefixtures("committed_db")
committed_db = committed.committed_db
test_database = committed.test_database

InThread = Callable[..., "Future[Any]"]
Session = psycopg.Connection[Any]


@pytest.fixture
def in_thread() -> Iterator[InThread]:
    """Call something in a thread of its own, with that thread's Django connection; gives its future."""
    with ThreadPoolExecutor() as pool:

        def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Future[Any]:
            def run() -> Any:
                try:
                    return function(*arguments, **options)
                finally:
                    connections["default"].close()

            return pool.submit(run)

        yield call


@pytest.fixture
def other(in_thread: InThread) -> Iterator[Session]:
    """Another session, with a transaction opened by its first statement; it ends before the threads are waited for."""
    with psycopg.connect(**connection.get_connection_params()) as session:
        yield session
        session.rollback()


@pytest.fixture
def observer() -> Iterator[Session]:
    """A session that sees what waits."""
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as session:
        yield session


def wait_until_blocked(observer: Session) -> None:
    """Wait until some session of this database waits for another's lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
    )
    eventually(lambda: observer.execute(waiting).fetchone() == (1,))


def test_of_two_deliveries_at_once_exactly_one_acquires(ledger, in_thread):
    job = make_job()
    fires = [make_fire(job, NOON + timedelta(minutes=m)) for m in range(25)]
    barrier = threading.Barrier(2)

    def acquire_all() -> list[bool]:
        won = []
        for fire in fires:
            delivery = delivery_of(fire)
            barrier.wait(PATIENCE_S)
            won.append(isinstance(ledger.acquire(delivery), Acquired))
        return won

    one, two = in_thread(acquire_all), in_thread(acquire_all)

    assert all(a != b for a, b in zip(one.result(PATIENCE_S), two.result(PATIENCE_S), strict=True))
    assert set(Fire.objects.values_list("attempt", flat=True)) == {1}


@pytest.mark.parametrize("fires_too", [True, False], ids=["fires written", "job only"])
def test_an_acquire_waits_for_a_pause_in_flight_and_is_refused(ledger, other, in_thread, observer, fires_too):
    fire = make_fire(make_job())
    other.execute("SELECT FROM scheduling_job FOR UPDATE")
    verdict = in_thread(ledger.acquire, delivery_of(fire))
    wait_until_blocked(observer)
    other.execute("UPDATE scheduling_job SET paused_at = now()")
    if fires_too:
        other.execute("UPDATE scheduling_fire SET state = 'skipped', reason = 'paused' WHERE state = 'claimed'")
    other.commit()

    assert verdict.result(PATIENCE_S) == Refused(Refusal.DONE if fires_too else Refusal.PAUSED)
    row = Fire.objects.get()
    assert (row.state, row.reason, row.attempt) == ("skipped", "paused", 0)


def test_an_acquire_waits_for_an_edit_in_flight_and_judges_by_it(ledger, other, in_thread, observer):
    fire = make_fire(make_job(), NOON + timedelta(days=3650))
    other.execute("SELECT FROM scheduling_job FOR UPDATE")
    verdict = in_thread(ledger.acquire, delivery_of(fire))
    wait_until_blocked(observer)
    other.execute("UPDATE scheduling_job SET at = at + interval '1 hour'")  # the trigger raises schedule_version
    other.commit()

    assert verdict.result(PATIENCE_S) == Refused(Refusal.SUPERSEDED)


def test_an_acquire_whose_pause_was_rolled_back_runs(ledger, other, in_thread, observer):
    fire = make_fire(make_job())
    other.execute("SELECT FROM scheduling_job FOR UPDATE")
    verdict = in_thread(ledger.acquire, delivery_of(fire))
    wait_until_blocked(observer)
    other.execute("UPDATE scheduling_job SET paused_at = now()")
    other.rollback()

    assert isinstance(verdict.result(PATIENCE_S), Acquired)


def test_a_pause_waits_for_an_acquire_in_flight_and_then_sees_it_running(ledger, in_thread, observer):
    fire = make_fire(make_job())

    def pause() -> str:
        with transaction.atomic():
            Job.objects.select_for_update().get()
            return Fire.objects.get().state

    with transaction.atomic():
        ledger.acquire(delivery_of(fire))
        seen = in_thread(pause)
        wait_until_blocked(observer)

    assert seen.result(PATIENCE_S) == "running"


def test_an_acquire_does_not_wait_for_a_claim_of_its_job(ledger, other):
    fire = make_fire(make_job())
    other.execute("UPDATE scheduling_job SET next_fire_at = now(), next_scheduled_for = now()")

    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '2s'")
    assert isinstance(ledger.acquire(delivery_of(fire)), Acquired)
    other.rollback()


def test_an_acquire_that_waited_for_a_take_over_is_stale(ledger, other, in_thread, observer):
    fire = make_fire(make_job())
    other.execute("UPDATE scheduling_fire SET fence = fence + 1")
    verdict = in_thread(ledger.acquire, delivery_of(fire))
    wait_until_blocked(observer)
    other.commit()

    assert verdict.result(PATIENCE_S) == Refused(Refusal.STALE_FENCE)


def test_a_completion_that_waited_for_the_reaper_is_refused(ledger, other, in_thread, observer):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))
    other.execute("UPDATE scheduling_fire SET state = 'retry_wait', fence = 2, holder = NULL, wake_at = now()")
    completion = in_thread(ledger.complete, verdict, worker="w", result="")
    wait_until_blocked(observer)
    other.commit()

    with pytest.raises(LeaseLost):
        completion.result(PATIENCE_S)
    assert not JobRun.objects.exists()


def test_a_heartbeat_passes_over_a_locked_row_and_does_not_call_it_lost(ledger, other):
    locked, free = (delivery_of(make_fire(make_job())) for _ in range(2))
    for delivery in (locked, free):
        acquired(ledger, delivery)
    Fire.objects.update(lease_until=NOON)
    other.execute("SELECT FROM scheduling_fire WHERE id = %s FOR UPDATE", [locked.fire_id])

    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '2s'")
    assert ledger.heartbeat([locked, free]).lost == set()
    assert {f.id for f in Fire.objects.filter(lease_until__gt=NOON)} == {free.fire_id}
    other.rollback()


@pytest.mark.parametrize("is_committed", [True, False])
def test_whether_a_completion_in_doubt_was_written_is_told_when_its_transaction_ends(
    ledger, in_thread, other, observer, is_committed
):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))
    other.execute("UPDATE scheduling_fire SET state = 'succeeded', lease_until = NULL")
    answer = in_thread(ledger.is_completed, verdict.delivery)
    wait_until_blocked(observer)
    (other.commit if is_committed else other.rollback)()

    assert answer.result(PATIENCE_S) is is_committed


def test_a_failure_told_while_a_completion_is_in_doubt_waits_and_says_what_was_written(
    ledger, in_thread, other, observer
):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))
    other.execute("UPDATE scheduling_fire SET state = 'succeeded', lease_until = NULL")
    answer = in_thread(ledger.fail, verdict, Failure("lost"), worker="w", delay=timedelta(0))
    wait_until_blocked(observer)
    other.commit()

    assert answer.result(PATIENCE_S) is State.SUCCEEDED


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_parent_that_calls_a_run_lost_while_its_completion_is_open_waits_and_tells_what_became_of_it(
    ledger, in_thread, other, observer, is_committed
):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))
    other.execute("UPDATE scheduling_fire SET state = 'succeeded', lease_until = NULL")
    answer = in_thread(ledger.lose, verdict.delivery, worker="parent", error="signal 9", run_state="lost")
    wait_until_blocked(observer)
    (other.commit if is_committed else other.rollback)()

    assert answer.result(PATIENCE_S) is (None if is_committed else State.RETRY_WAIT)
    assert Fire.objects.get().state == ("succeeded" if is_committed else "retry_wait")


def test_a_completion_that_waited_for_its_loss_is_refused(ledger, in_thread, observer):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))

    with transaction.atomic():
        ledger.lose(verdict.delivery, worker="parent", error="signal 9", run_state="timed_out")
        completion = in_thread(ledger.complete, verdict, worker="child", result="")
        wait_until_blocked(observer)

    with pytest.raises(LeaseLost):
        completion.result(PATIENCE_S)
    assert JobRun.objects.get().state == "timed_out"


def test_a_loss_that_waited_for_the_reaper_changes_nothing(ledger, other, in_thread, observer):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))
    other.execute("UPDATE scheduling_fire SET state = 'retry_wait', fence = 2, holder = NULL, wake_at = now()")
    answer = in_thread(ledger.lose, verdict.delivery, worker="parent", error="signal 9", run_state="lost")
    wait_until_blocked(observer)
    other.commit()

    assert answer.result(PATIENCE_S) is None
    assert not JobRun.objects.exists()


@pytest.mark.parametrize("end", ["fail", "snooze", "lose"])
def test_who_ends_a_run_while_somebody_asks_it_to_stop_waits_and_lets_it_die(ledger, other, in_thread, observer, end):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))
    other.execute("UPDATE scheduling_fire SET cancel_reason = 'enough'")
    how: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
        "fail": (ledger.fail, (verdict, Failure("x")), {"delay": timedelta(0)}),
        "snooze": (ledger.snooze, (verdict,), {"delay": timedelta(0)}),
        "lose": (ledger.lose, (verdict.delivery,), {"error": "signal 9", "run_state": "lost"}),
    }
    function, arguments, options = how[end]
    state = in_thread(function, *arguments, worker="w", **options)
    wait_until_blocked(observer)
    other.commit()

    assert state.result(PATIENCE_S) is State.DEAD
    fire, letter = Fire.objects.get(), DeadLetter.objects.get()
    assert (fire.state, fire.reason, letter.reason, letter.fence) == ("dead", "cancelled", "cancelled", fire.fence)


def test_who_asks_a_run_to_stop_while_it_completes_comes_too_late(ledger, in_thread, observer):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))

    def ask() -> int:
        return Fire.objects.filter(state="running").update(cancel_reason="enough")

    with transaction.atomic():
        ledger.complete(verdict, worker="w", result="")
        asked = in_thread(ask)
        wait_until_blocked(observer)

    assert asked.result(PATIENCE_S) == 0
    assert Fire.objects.get().state == "succeeded"


def test_a_call_that_is_repeated_while_the_first_is_under_way_puts_off_once(ledger, in_thread, observer):
    verdict = acquired(ledger, delivery_of(make_fire(make_job(max_attempts=3))))

    with transaction.atomic():
        first = ledger.snooze(verdict, worker="w", delay=timedelta(0))
        second = in_thread(ledger.snooze, verdict, worker="w", delay=timedelta(0))
        wait_until_blocked(observer)

    assert (first, second.result(PATIENCE_S)) == (State.RETRY_WAIT, State.RETRY_WAIT)
    fire = Fire.objects.get()
    assert (fire.fence, fire.max_attempts) == (2, 4)
    assert JobRun.objects.count() == 1


def test_a_step_waits_for_the_reaper_that_has_the_fire_and_is_refused(ledger, other, in_thread, observer):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))
    other.execute("UPDATE scheduling_fire SET state = 'retry_wait', fence = 2, holder = NULL, wake_at = now()")
    step = in_thread(ledger.begin_step, verdict, "charge")
    wait_until_blocked(observer)
    other.commit()

    with pytest.raises(LeaseLost):
        step.result(PATIENCE_S)
    assert not Step.objects.exists()


def test_a_reaper_passes_over_a_fire_whose_step_is_being_noted(ledger, other):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))

    with transaction.atomic():
        ledger.begin_step(verdict, "charge")
        assert other.execute("SELECT id FROM scheduling_fire FOR UPDATE SKIP LOCKED").fetchall() == []
    other.rollback()
    assert len(other.execute("SELECT id FROM scheduling_fire FOR UPDATE SKIP LOCKED").fetchall()) == 1


def test_a_step_that_is_begun_again_while_the_first_call_is_under_way_is_new_to_both(ledger, in_thread, observer):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))

    with transaction.atomic():
        first = ledger.begin_step(verdict, "charge")
        second = in_thread(ledger.begin_step, verdict, "charge")
        wait_until_blocked(observer)

    assert first.is_new
    assert second.result(PATIENCE_S).is_new
    assert Step.objects.count() == 1


def end_session_of_django(other: Session) -> None:
    connection.ensure_connection()
    other.execute("SELECT pg_terminate_backend(%s, 5000)", [connection.connection.info.backend_pid])
    other.commit()


def test_a_run_survives_the_end_of_its_database_session_before_each_statement(ledger, other):
    fire = make_fire(make_job())
    end_session_of_django(other)
    verdict = acquired(ledger, delivery_of(fire))
    end_session_of_django(other)
    ledger.complete(verdict, worker="w", result="")

    assert Fire.objects.get().state == "succeeded"


def test_inside_a_transaction_a_broken_session_is_an_error(ledger, other):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))

    def complete_in_transaction() -> None:
        with transaction.atomic():
            end_session_of_django(other)
            ledger.complete(verdict, worker="w", result="")

    with pytest.raises(OperationalError):
        complete_in_transaction()
    assert Fire.objects.get().state == "running"


def test_the_owner_hears_of_a_woken_successor_and_of_a_retry_that_is_due_soon(ledger, other):
    job = make_job(overlap="buffer_all")
    first, second = make_fire(job), make_fire(make_job())
    make_fire(job, NOON + timedelta(minutes=1), state="parked", reason="overlap", wake_at=datetime.now(UTC))
    other.autocommit = True
    other.execute("LISTEN fairbeat")

    def heard() -> list[str]:
        return [notice.payload for notice in other.notifies(timeout=PATIENCE_S, stop_after=1)]

    ledger.complete(acquired(ledger, delivery_of(first)), worker="w", result="")
    assert heard() == [str(first.shard_id)]
    ledger.fail(acquired(ledger, delivery_of(second)), Failure("x"), worker="w", delay=timedelta(seconds=1))
    assert heard() == [str(second.shard_id)]
    third, fourth = make_fire(make_job()), make_fire(make_job())
    ledger.snooze(acquired(ledger, delivery_of(third)), worker="w", delay=timedelta(seconds=1))
    assert heard() == [str(third.shard_id)]
    killed = acquired(ledger, delivery_of(fourth)).delivery
    ledger.lose(killed, worker="parent", error="signal 9", run_state="lost")
    assert heard() == [str(fourth.shard_id)]


def test_nobody_is_told_of_what_makes_nothing_due(ledger, other):
    other.autocommit = True
    other.execute("LISTEN fairbeat")

    ledger.complete(acquired(ledger, delivery_of(make_fire(make_job(overlap="skip")))), worker="w", result="")
    for delay in (timedelta(minutes=1), None):
        ledger.fail(acquired(ledger, delivery_of(make_fire(make_job()))), Failure("x"), worker="w", delay=delay)
    ledger.cancel(acquired(ledger, delivery_of(make_fire(make_job()))), worker="w", reason="x")
    with connection.cursor() as cursor:
        cursor.execute("NOTIFY fairbeat, 'the end'")

    assert [notice.payload for notice in other.notifies(timeout=PATIENCE_S, stop_after=1)] == ["the end"]


def test_a_run_locks_the_partitions_of_its_own_day_only(ledger):
    job = make_job()
    fire = make_fire(job)
    for days in (1, 2, 3):
        make_fire(job, NOON - timedelta(days=days))

    with transaction.atomic():
        ledger.complete(acquired(ledger, delivery_of(fire)), worker="w", result="")
        ledger.heartbeat([delivery_of(fire)])
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT DISTINCT relation::regclass::text FROM pg_locks JOIN pg_class c ON c.oid = relation"
                " WHERE pid = pg_backend_pid() AND mode = 'RowExclusiveLock' AND relkind = 'r' AND relispartition"
            )
            assert {name for (name,) in cursor.fetchall()} == {
                "scheduling_fire_30_20260302",
                "scheduling_jobrun_30_20260302",
            }
