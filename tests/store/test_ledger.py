"""The ledger in Postgres: each rule of acquire, heartbeat, complete and fail, on one connection."""

from __future__ import annotations

import uuid
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from scheduling.core.errors import LeaseLost
from scheduling.core.fire import State
from scheduling.core.identity import fire_id, millisecond_of, run_id
from scheduling.models import Fire, Job, JobClock, JobRun
from scheduling.store.ledger import RESULT_LIMIT, PostgresLedger
from scheduling.store.ledger_port import Acquired, Delivery, Failure, Refusal, Refused
from tests.fires import NOON, delivery_of, make_fire, make_job
from tests.store.ledger_plans import counted_round_trips, keep_all_plans

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
BOOM = Failure("ValueError: boom", "Traceback …")


@pytest.fixture
def planning_ledger() -> PostgresLedger:
    """It plans every statement anew, as it does while its tables are small."""
    return PostgresLedger("default", lease=timedelta(seconds=30))


@pytest.fixture(params=["planned anew", "kept plans"])
def ledger(request: pytest.FixtureRequest, planning_ledger: PostgresLedger) -> PostgresLedger:
    return planning_ledger if request.param == "planned anew" else keep_all_plans(planning_ledger)


@pytest.fixture
def stopped_clock() -> None:
    """Job time stands still a minute after noon."""
    JobClock.objects.create(job_origin=NOON + timedelta(minutes=1), real_origin=None)


def acquired(ledger: PostgresLedger, delivery: Delivery) -> Acquired:
    verdict = ledger.acquire(delivery)
    assert isinstance(verdict, Acquired)
    return verdict


def row_of(fire: Fire) -> Fire:
    return Fire.objects.by_id(fire.id)


def test_acquire_makes_a_claimed_fire_running_with_its_first_attempt(ledger):
    job = make_job(max_attempts=5, retry_base=timedelta(seconds=7), retry_cap=timedelta(minutes=2))
    fire = make_fire(job)
    delivery = delivery_of(fire)

    verdict = acquired(ledger, delivery)

    row = row_of(fire)
    assert (row.state, row.attempt, row.holder, row.fence) == ("running", 1, delivery.holder, 1)
    assert row.lease_until
    assert row.started_at
    assert row.lease_until - row.started_at >= timedelta(seconds=29)
    assert (verdict.attempt, verdict.max_attempts, verdict.exclusive) == (1, 5, False)
    assert (verdict.retry_base, verdict.retry_cap) == (timedelta(seconds=7), timedelta(minutes=2))


def test_acquire_repeated_by_its_holder_counts_no_second_attempt(ledger):
    delivery = delivery_of(make_fire(make_job()))
    first = acquired(ledger, delivery)

    assert acquired(ledger, delivery) == first
    assert Fire.objects.get().attempt == 1


def test_a_second_delivery_of_a_running_fire_is_refused_even_past_its_lease(ledger):
    fire = make_fire(make_job())
    acquired(ledger, delivery_of(fire))
    Fire.objects.update(lease_until=NOON - HOUR)

    assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.RUNNING)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"fence": 3}, Refusal.STALE_FENCE),
        ({"state": "succeeded", "attempt": 1}, Refusal.DONE),
        ({"state": "dead", "reason": "attempts_exhausted", "attempt": 3}, Refusal.DONE),
        ({"state": "skipped", "reason": "missed"}, Refusal.DONE),
        ({"state": "retry_wait", "reason": "failed", "wake_at": NOON, "attempt": 1}, Refusal.WAITING),
        ({"state": "parked", "reason": "overlap", "wake_at": NOON}, Refusal.WAITING),
        (
            {"state": "running", "attempt": 1, "holder": uuid.UUID(int=1), "lease_until": NOON, "started_at": NOON},
            Refusal.RUNNING,
        ),
    ],
)
def test_acquire_refuses_and_changes_nothing(ledger, columns, reason):
    fire = make_fire(make_job(), **columns)
    before = Fire.objects.values().get()

    assert ledger.acquire(delivery_of(fire, fence=1)) == Refused(reason)
    assert Fire.objects.values().get() == before


def test_a_message_whose_row_is_gone_is_refused(ledger):
    fire = make_fire(make_job())
    Fire.objects.all().delete()

    assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.GONE)


def test_a_message_whose_partition_never_was_is_refused(planning_ledger):
    job = make_job()
    scheduled_for = NOON - timedelta(days=400)
    delivery = Delivery(
        fire_id=fire_id(job.id, scheduled_for),
        job_id=job.id,
        scheduled_for=scheduled_for,
        history_days=7,
        fence=1,
        holder=uuid.uuid4(),
    )

    assert planning_ledger.acquire(delivery) == Refused(Refusal.GONE)


def test_a_fire_whose_job_row_is_gone_is_refused(ledger):
    fire = make_fire(make_job())
    Job.objects.filter(pk=fire.job_id)._raw_delete("default")

    assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.DELETED)


@pytest.mark.usefixtures("stopped_clock")
class TestJudgement:
    """What became of the job since the message was sent, judged and written by the acquire."""

    def paused(self, job: Job) -> None:
        Job.objects.filter(pk=job.pk).update(paused_at=NOON)

    def test_a_paused_job_skips_its_unstarted_fire(self, ledger):
        fire = make_fire(make_job())
        self.paused(fire.job)

        assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.PAUSED)
        row = row_of(fire)
        assert (row.state, row.reason, row.attempt) == ("skipped", "paused", 0)
        assert row.finished_at is not None

    def test_a_paused_job_gives_a_started_fire_back_to_its_owner_until_resume(self, ledger):
        fire = make_fire(make_job(), attempt=1, fence=2)
        self.paused(fire.job)

        assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.PAUSED)
        row = row_of(fire)
        assert (row.state, row.reason, row.attempt, row.fence) == ("retry_wait", "paused", 1, 2)
        assert row.wake_at == NOON + timedelta(minutes=1)
        assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.PAUSED), "a copy of the message"

    @pytest.mark.parametrize(("until_s", "runs"), [(60, True), (61, False)])
    def test_a_pause_ends_by_itself_on_the_job_clock(self, ledger, until_s, runs):
        fire = make_fire(make_job())
        Job.objects.update(paused_at=NOON, paused_until=NOON + timedelta(seconds=until_s))

        assert isinstance(ledger.acquire(delivery_of(fire)), Acquired) is runs

    @pytest.mark.parametrize("origin", ["manual:1", "backfill:7"])
    def test_what_a_person_asked_for_runs_though_the_job_is_paused(self, ledger, origin):
        fire = make_fire(make_job(), origin=origin)
        self.paused(fire.job)

        assert isinstance(ledger.acquire(delivery_of(fire)), Acquired)

    def test_a_fire_after_an_edit_of_an_older_schedule_is_superseded(self, ledger):
        fire = make_fire(make_job(), schedule_version=1)
        Job.objects.filter(pk=fire.job_id).update(schedule_version=2, schedule_changed_at=NOON - HOUR)

        assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.SUPERSEDED)
        assert (row_of(fire).state, row_of(fire).reason) == ("skipped", "superseded")

    @pytest.mark.parametrize(
        "columns", [{"attempt": 1}, {"origin": "manual:1"}, {"schedule_version": 2}], ids=lambda c: next(iter(c))
    )
    def test_an_edit_leaves_alone_what_started_what_was_asked_for_and_what_is_new(self, ledger, columns):
        fire = make_fire(make_job(), **columns)
        Job.objects.filter(pk=fire.job_id).update(schedule_version=2, schedule_changed_at=NOON - HOUR)

        assert isinstance(ledger.acquire(delivery_of(fire)), Acquired)

    def test_an_edit_leaves_alone_what_was_scheduled_before_it(self, ledger):
        fire = make_fire(make_job())
        Job.objects.filter(pk=fire.job_id).update(schedule_version=2, schedule_changed_at=NOON)

        assert isinstance(ledger.acquire(delivery_of(fire)), Acquired)

    def test_an_unstarted_fire_expires_on_the_job_clock_from_when_it_was_to_fire(self, ledger):
        job = make_job(expires_after=timedelta(seconds=60))
        late, jittered = make_fire(job), make_fire(job, NOON - HOUR, fire_at=NOON + timedelta(seconds=1))

        assert ledger.acquire(delivery_of(late)) == Refused(Refusal.EXPIRED)
        assert (row_of(late).state, row_of(late).reason) == ("skipped", "expired")
        assert isinstance(ledger.acquire(delivery_of(jittered)), Acquired)

    def test_a_started_fire_does_not_expire(self, ledger):
        fire = make_fire(make_job(expires_after=timedelta(seconds=1)), attempt=1)

        assert acquired(ledger, delivery_of(fire)).attempt == 2

    @pytest.mark.parametrize(("attempt", "state"), [(0, "skipped"), (1, "dead")])
    def test_a_deleted_job_cancels_its_fires(self, ledger, attempt, state):
        fire = make_fire(make_job(), attempt=attempt, origin="manual:1")
        Job.objects.filter(pk=fire.job_id).update(deleted_at=NOON)

        assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.DELETED)
        row = row_of(fire)
        assert (row.state, row.reason) == (state, "cancelled")
        assert row.finished_at is not None

    def test_a_running_fire_is_its_holders_whatever_became_of_the_job(self, ledger):
        delivery = delivery_of(make_fire(make_job()))
        acquired(ledger, delivery)
        self.paused(Job.objects.get())

        assert isinstance(ledger.acquire(delivery), Acquired)


@pytest.mark.usefixtures("stopped_clock")
def test_a_kept_plan_decides_as_one_made_anew_whatever_the_job_and_the_fire_say(planning_ledger):
    fire = make_fire(make_job())
    keeping_ledger = keep_all_plans(PostgresLedger("default", lease=timedelta(seconds=30)))
    paused: list[dict[str, Any]] = [
        {"paused_at": None},
        {"paused_at": NOON},
        {"paused_at": NOON, "paused_until": NOON + timedelta(seconds=30)},
    ]
    expiring = [{"expires_after": after} for after in (None, timedelta(seconds=59), HOUR)]
    edited = [{"schedule_version": 1}] + [
        {"schedule_version": 2, "schedule_changed_at": NOON + by} for by in (-HOUR, timedelta(0), HOUR)
    ]
    fires = [{"origin": origin, "attempt": attempt} for origin in ("", "manual:1") for attempt in (0, 1)]
    as_made = Job.objects.values().get(), Fire.objects.values().get()

    def outcome(ledger: PostgresLedger) -> tuple[Any, ...]:
        Job.objects.update(**as_made[0] | job)
        Fire.objects.update(**as_made[1] | columns)
        verdict = ledger.acquire(delivery_of(fire))
        row = row_of(fire)
        return type(verdict), getattr(verdict, "reason", ""), row.state, row.reason, row.attempt, row.wake_at

    for one, two, three, columns in product(paused, expiring, edited, fires):
        job = one | two | three
        assert outcome(keeping_ledger) == outcome(planning_ledger), (job, columns)


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

    assert ledger.heartbeat(deliveries[:2]) == set()
    renewed = {f.id for f in Fire.objects.filter(lease_until__gt=NOON)}
    assert renewed == {d.fire_id for d in deliveries[:2]}


def test_heartbeat_names_the_holders_that_lost_their_fire_and_renews_the_others(ledger):
    kept, retaken, gone = (delivery_of(make_fire(make_job())) for _ in range(3))
    for delivery in (kept, retaken, gone):
        acquired(ledger, delivery)
    Fire.objects.filter(id=retaken.fire_id).update(fence=2, holder=uuid.uuid4())
    Fire.objects.filter(id=gone.fire_id).delete()

    assert ledger.heartbeat([kept, retaken, gone]) == {retaken.holder, gone.holder}


def test_heartbeat_does_not_call_a_fire_lost_that_its_holder_has_just_completed(ledger):
    verdict = acquired(ledger, delivery_of(make_fire(make_job())))
    ledger.complete(verdict, worker="w", result="")

    assert ledger.heartbeat([verdict.delivery]) == set()


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
