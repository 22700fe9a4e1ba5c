"""What becomes of an acquired fire: each rule of heartbeat, complete, fail and bury, on one connection."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest

from scheduling.core.errors import LeaseLost
from scheduling.core.fire import State
from scheduling.core.identity import fire_id, millisecond_of, run_id
from scheduling.models import Fire, JobRun
from scheduling.store.ledger_port import Failure
from scheduling.store.ledger_values import RESULT_LIMIT
from tests.fires import NOON, delivery_of, make_fire, make_job, row_of
from tests.store.ledger_plans import acquired, counted_round_trips

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
BOOM = Failure("ValueError: boom", "Traceback …")


def test_complete_ends_the_fire_and_records_its_run(ledger):
    fire = make_fire(make_job())
    verdict = acquired(ledger, delivery_of(fire))

    ledger.complete(verdict, worker="w1@host", result="42")

    row, run = row_of(fire), JobRun.objects.get()
    assert (row.state, row.reason, row.lease_until) == ("succeeded", "", None)
    assert row.finished_at
    assert row.started_at
    assert row.finished_at >= row.started_at
    assert (run.id, run.fire_id, run.fence, run.attempt) == (run_id(fire.id, 1), fire.id, 1, 1)
    assert (run.state, run.holder, run.worker, run.result) == ("succeeded", verdict.delivery.holder, "w1@host", "42")
    assert (run.scheduled_for, run.history_days, run.job_id) == (fire.scheduled_for, fire.history_days, fire.job_id)
    assert run.started_at == row.started_at


def test_complete_repeated_by_its_holder_says_yes_again_and_records_nothing(ledger):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))
    ledger.complete(verdict, worker="w", result="")

    ledger.complete(verdict, worker="w", result="")
    assert JobRun.objects.count() == 1
    assert ledger.is_completed(verdict.delivery)


def test_a_stale_holder_can_neither_complete_nor_fail(ledger):
    fire = make_fire(make_job())
    stale = acquired(ledger, delivery_of(fire))
    Fire.objects.update(state="claimed", fence=2, holder=None, lease_until=None)  # its owner took it back
    newer = acquired(ledger, delivery_of(fire, fence=2))

    with pytest.raises(LeaseLost):
        ledger.complete(stale, worker="w", result="")
    with pytest.raises(LeaseLost):
        ledger.fail(stale, BOOM, worker="w", delay=HOUR)

    assert not ledger.is_completed(stale.delivery)
    assert JobRun.objects.count() == 0
    ledger.complete(newer, worker="w", result="")
    with pytest.raises(LeaseLost):
        ledger.complete(stale, worker="w", result="")


@pytest.mark.usefixtures("stopped_clock")
def test_fail_puts_the_fire_back_under_a_higher_fence_at_its_retry_time(ledger):
    fire = make_fire(make_job(max_attempts=2))
    verdict = acquired(ledger, delivery_of(fire))

    assert ledger.fail(verdict, BOOM, worker="w1", delay=timedelta(seconds=90)) is State.RETRY_WAIT

    row, run = row_of(fire), JobRun.objects.get()
    assert (row.state, row.reason, row.fence, row.attempt) == ("retry_wait", "failed", 2, 1)
    assert (row.holder, row.lease_until, row.finished_at) == (None, None, None)
    assert row.wake_at == NOON + timedelta(minutes=1, seconds=90)
    assert (run.id, run.state, run.fence, run.worker) == (run_id(fire.id, 1), "failed", 1, "w1")
    assert (run.error, run.traceback) == (BOOM.error, BOOM.traceback)


@pytest.mark.usefixtures("stopped_clock")
def test_snooze_puts_the_fire_back_with_one_attempt_more(ledger):
    fire = make_fire(make_job(max_attempts=1))

    assert ledger.snooze(acquired(ledger, delivery_of(fire)), worker="w", delay=HOUR) is State.RETRY_WAIT
    row = row_of(fire)
    assert (row.state, row.reason, row.fence, row.attempt, row.max_attempts) == ("retry_wait", "snoozed", 2, 1, 2)
    assert row.wake_at == NOON + timedelta(minutes=1) + HOUR


def test_fail_of_the_last_attempt_makes_the_fire_dead(ledger):
    fire = make_fire(make_job(max_attempts=2), attempt=1, fence=2)
    verdict = acquired(ledger, delivery_of(fire))

    assert ledger.fail(verdict, BOOM, worker="w", delay=HOUR) is State.DEAD

    row = row_of(fire)
    assert (row.state, row.reason, row.attempt, row.wake_at) == ("dead", "attempts_exhausted", 2, None)
    assert row.finished_at is not None


@pytest.mark.parametrize(("max_attempts", "state"), [(1, State.DEAD), (2, State.RETRY_WAIT)])
def test_fail_repeated_by_its_holder_tells_the_same_and_writes_nothing(ledger, max_attempts, state):
    fire = make_fire(make_job(max_attempts=max_attempts))
    verdict = acquired(ledger, delivery_of(fire))
    ledger.fail(verdict, BOOM, worker="w", delay=HOUR)
    before = row_of(fire).fence

    assert ledger.fail(verdict, BOOM, worker="w", delay=HOUR) is state
    assert JobRun.objects.count() == 1
    assert row_of(fire).fence == before


def test_fail_after_a_completion_whose_reply_was_lost_says_that_it_succeeded(ledger):
    fire = make_fire(make_job())
    verdict = acquired(ledger, delivery_of(fire))
    ledger.complete(verdict, worker="w", result="")

    assert ledger.fail(verdict, BOOM, worker="w", delay=HOUR) is State.SUCCEEDED
    assert row_of(fire).state == "succeeded"
    assert JobRun.objects.get().state == "succeeded"


def test_the_history_keeps_bounded_texts_that_postgres_can_store(ledger):
    one, two = (acquired(ledger, delivery_of(make_fire(make_job()))) for _ in range(2))

    ledger.complete(one, worker="w", result="x" * 5000)
    ledger.fail(two, Failure("nul \x00 and \ud800", "head" + "x" * 100_000 + "the cause"), worker="w", delay=HOUR)

    succeeded, failed = JobRun.objects.get(state="succeeded"), JobRun.objects.get(state="failed")
    assert len(succeeded.result) == RESULT_LIMIT
    assert "\x00" not in failed.error
    assert len(failed.traceback) < 20_000
    assert failed.traceback.endswith("the cause")


@pytest.mark.usefixtures("stopped_clock")
class TestExclusive:
    """Runs of a job that may not overlap: the end of one wakes the next."""

    @pytest.fixture
    def fires(self) -> list[Fire]:
        job = make_job(overlap="buffer_all")
        waiting: dict[str, Any] = {"state": "parked", "reason": "overlap", "wake_at": NOON + HOUR}
        return [make_fire(job), *(make_fire(job, NOON + timedelta(minutes=m), **waiting) for m in (3, -2))]

    def test_success_wakes_the_earliest_that_waits_for_its_turn(self, ledger, fires):
        other = make_fire(make_job(overlap="skip"), state="parked", reason="overlap", wake_at=NOON + HOUR)
        verdict = acquired(ledger, delivery_of(fires[0]))
        assert verdict.exclusive

        ledger.complete(verdict, worker="w", result="")

        assert row_of(fires[2]).wake_at == NOON + timedelta(minutes=1)
        assert row_of(fires[1]).wake_at == NOON + HOUR
        assert row_of(other).wake_at == NOON + HOUR

    def test_a_failure_wakes_it_too_and_its_owner_decides(self, ledger, fires):
        ledger.fail(acquired(ledger, delivery_of(fires[0])), BOOM, worker="w", delay=HOUR)

        assert row_of(fires[2]).wake_at == NOON + timedelta(minutes=1)

    def test_a_refused_completion_wakes_nobody(self, ledger, fires):
        verdict = acquired(ledger, delivery_of(fires[0]))
        Fire.objects.filter(id=fires[0].id).update(fence=9)

        with pytest.raises(LeaseLost):
            ledger.complete(verdict, worker="w", result="")
        assert row_of(fires[2]).wake_at == NOON + HOUR


def test_heartbeat_renews_every_named_fire(ledger):
    deliveries = [delivery_of(make_fire(make_job())) for _ in range(3)]
    for delivery in deliveries:
        acquired(ledger, delivery)
    Fire.objects.update(lease_until=NOON)

    assert ledger.heartbeat(deliveries[:2]).lost == set()
    renewed = {f.id for f in Fire.objects.filter(lease_until__gt=NOON)}
    assert renewed == {d.fire_id for d in deliveries[:2]}


def test_heartbeat_names_the_holders_that_lost_their_fire_and_renews_the_others(ledger):
    kept, retaken, gone = (delivery_of(make_fire(make_job())) for _ in range(3))
    for delivery in (kept, retaken, gone):
        acquired(ledger, delivery)
    Fire.objects.filter(id=retaken.fire_id).update(fence=2, holder=uuid.uuid4())
    Fire.objects.filter(id=gone.fire_id).delete()

    assert ledger.heartbeat([kept, retaken, gone]).lost == {retaken.holder, gone.holder}


def test_heartbeat_does_not_call_a_fire_lost_that_its_holder_has_just_completed(ledger):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))
    ledger.complete(verdict, worker="w", result="")

    assert ledger.heartbeat([verdict.delivery]).lost == set()


def test_bury_ends_a_claimed_fire_with_its_reason_and_nothing_else(ledger):
    fire, running = make_fire(make_job()), make_fire(make_job())
    acquired(ledger, delivery_of(running))

    assert ledger.bury(delivery_of(fire), "unknown_task")
    assert not ledger.bury(delivery_of(running), "unknown_task")
    assert not ledger.bury(delivery_of(fire, fence=9), "unknown_task")
    assert (row_of(fire).state, row_of(fire).reason, row_of(fire).attempt) == ("dead", "unknown_task", 0)


@pytest.mark.parametrize("overlap", ["allow", "skip"])
def test_a_run_costs_two_round_trips(ledger, overlap):
    job = make_job(overlap=overlap)
    for minute in range(2):  # the first run prepares
        delivery = delivery_of(make_fire(job, NOON + timedelta(minutes=minute)))
        with counted_round_trips() as trips:
            ledger.complete(acquired(ledger, delivery), worker="w", result="")
    assert len(trips) == 2


def test_run_ids_are_one_for_each_fence_and_tell_the_day():
    fire = fire_id(uuid.UUID(int=7), NOON)

    ids = {run_id(fire, fence) for fence in range(1, 50)}
    assert len(ids) == 49
    assert {millisecond_of(one) for one in ids} == {NOON}
    assert {one.version for one in ids} == {8}
