"""A job's task from its delivery to what the ledger and Celery are told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from celery.exceptions import Ignore, MaxRetriesExceededError, Reject, Retry, SoftTimeLimitExceeded
from django.db import OperationalError

from scheduling import InvalidField, NoCurrentJob, current_job
from scheduling.models import Fire, JobClock, JobRun
from scheduling.store.ledger import PostgresLedger
from scheduling.worker.errors import RejectedByTask
from scheduling.worker.refusals import refusals
from tests.fires import NOON, make_fire, make_job
from tests.store.ledger_plans import counted_round_trips

pytestmark = pytest.mark.django_db


@pytest.fixture
def _stopped_clock() -> None:
    JobClock.objects.create(job_origin=NOON, real_origin=None)


def raising(error: BaseException):
    def task():
        raise error

    return task


def test_it_runs_and_the_ledger_has_its_end(define, deliver, fire_of):
    fire = fire_of(define(lambda: {"paid": 3}))

    assert deliver(fire).state == "SUCCESS"

    assert Fire.objects.get().state == "succeeded"
    run = JobRun.objects.get()
    assert (run.state, run.result, run.worker) == ("succeeded", "{'paid': 3}", "w1@test")


def test_arguments_come_from_the_job(define, deliver):
    seen = []
    task = define(lambda *args, **kwargs: seen.append((args, kwargs)))

    deliver(make_fire(make_job(task.name, args=[1, "two"], kwargs={"three": [3]})))

    assert seen == [((1, "two"), {"three": [3]})]


def test_a_second_delivery_of_the_same_message_runs_nothing(define, deliver, fire_of):
    runs = []
    fire = fire_of(define(lambda: runs.append(1)))
    before = refusals().get("done", 0)

    assert [deliver(fire).state for _ in range(3)] == ["SUCCESS", "IGNORED", "IGNORED"]
    assert runs == [1]
    assert refusals()["done"] - before == 2
    assert JobRun.objects.count() == 1


def test_a_stale_message_runs_nothing(define, deliver, fire_of):
    fire = fire_of(define(lambda: pytest.fail("it ran")))
    Fire.objects.update(fence=2)

    assert deliver(fire).state == "IGNORED"
    assert Fire.objects.get().attempt == 0


def test_the_task_knows_its_fire(define, deliver):
    seen = []
    task = define(lambda: seen.append(current_job()))
    job = make_job(task.name, name="nightly invoices", max_attempts=4)
    deliver(make_fire(job, attempt=1, fence=3, origin="manual:r7", fire_at=NOON + timedelta(minutes=7)))

    (context,) = seen
    assert context.scheduled_for == NOON
    assert context.idempotency_key == f"{job.id}/2026-03-02T12:00:00.000000Z/manual:r7"
    assert (context.fence, context.attempt) == (3, 2)
    assert (context.tenant, context.name, context.job_id) == ("default", "nightly invoices", job.id)
    assert context.fire_id == Fire.objects.get().id
    assert context.lost is False


def test_celerys_own_count_of_retries_follows_the_ledger(define, deliver, fire_of):
    seen = []
    fire = fire_of(define(lambda self: seen.append(self.request.retries), bind=True), attempt=2, fence=3)

    deliver(fire)
    assert seen == [2]


@pytest.mark.usefixtures("_stopped_clock")
def test_a_failure_is_retried_by_the_ledger_and_not_by_celery(define, deliver, fire_of, published):
    boom = ValueError("boom")
    policy = {"max_attempts": 3, "retry_base": timedelta(minutes=2), "retry_cap": timedelta(minutes=3)}
    fire = fire_of(define(raising(boom)), policy=policy, attempt=1)

    told = deliver(fire)

    assert told.state == "RETRY"
    assert isinstance(told.value, Retry)
    assert told.value.exc is boom
    row, run = Fire.objects.get(), JobRun.objects.get()
    assert (row.state, row.reason, row.fence, row.attempt) == ("retry_wait", "failed", 2, 2)
    assert row.wake_at
    assert NOON <= row.wake_at <= NOON + timedelta(minutes=3)
    assert told.value.when == (row.wake_at - NOON).total_seconds()
    assert (run.state, run.error) == ("failed", "ValueError: boom")
    assert "raise error" in run.traceback
    assert published == []


def test_the_last_failure_is_the_tasks_own_exception_and_the_fire_is_dead(define, deliver, fire_of):
    boom = ValueError("boom")
    fire = fire_of(define(raising(boom)), policy={"max_attempts": 1})

    told = deliver(fire)

    assert (told.state, told.value) == ("FAILURE", boom)
    assert (Fire.objects.get().state, Fire.objects.get().reason) == ("dead", "attempts_exhausted")


def test_a_soft_timeout_is_a_failed_attempt(define, deliver, fire_of):
    assert deliver(fire_of(define(raising(SoftTimeLimitExceeded())))).state == "RETRY"
    assert "SoftTimeLimitExceeded" in JobRun.objects.get().error


@pytest.mark.usefixtures("_stopped_clock")
class TestCelerysRetry:
    """What `self.retry()` and its relatives become."""

    def test_its_countdown_is_when_the_ledger_brings_the_fire_back(self, define, deliver, fire_of, published):
        fire = fire_of(define(lambda self: self.retry(countdown=90), bind=True))

        assert deliver(fire).state == "RETRY"
        assert Fire.objects.get().wake_at == NOON + timedelta(seconds=90)
        assert published == []

    def test_its_eta_is_too(self, define, deliver, fire_of):
        eta = datetime.now(UTC) + timedelta(hours=1)
        deliver(fire_of(define(lambda self: self.retry(eta=eta), bind=True)))

        wake_at = Fire.objects.get().wake_at
        assert wake_at
        assert timedelta(minutes=59) < wake_at - NOON <= timedelta(hours=1)

    def test_without_a_countdown_the_jobs_backoff_decides(self, define, deliver, fire_of):
        policy = {"retry_base": timedelta(0), "retry_cap": timedelta(0)}
        deliver(fire_of(define(lambda self: self.retry(), bind=True), policy=policy))

        assert Fire.objects.get().wake_at == NOON

    def test_its_cause_is_what_the_history_shows(self, define, deliver, fire_of):
        cause = OSError("no route")
        told = deliver(fire_of(define(lambda self: self.retry(exc=cause), bind=True)))

        assert told.value.exc is cause
        assert JobRun.objects.get().error == "OSError: no route"

    def test_when_the_attempts_are_used_up_its_cause_is_raised(self, define, deliver, fire_of):
        cause = OSError("no route")
        policy = {"max_attempts": 1}
        told = deliver(fire_of(define(lambda self: self.retry(exc=cause), bind=True), policy=policy))
        assert (told.state, told.value) == ("FAILURE", cause)
        told = deliver(fire_of(define(lambda self: self.retry(), bind=True), policy=policy))
        assert isinstance(told.value, MaxRetriesExceededError)

    def test_a_retry_that_was_not_thrown_still_is_one(self, define, deliver, fire_of):
        def task(self):
            self.retry(countdown=30, throw=False)
            return "a value"

        assert deliver(fire_of(define(task, bind=True))).state == "RETRY"
        assert Fire.objects.get().wake_at == NOON + timedelta(seconds=30)

    def test_other_arguments_are_refused_since_a_fire_has_those_of_its_job(self, define, deliver, fire_of):
        told = deliver(fire_of(define(lambda self: self.retry(args=[2]), bind=True), policy={"max_attempts": 1}))

        assert isinstance(told.value, InvalidField)
        assert str(told.value).startswith("args [2]: ")

    @pytest.mark.parametrize(
        "when", [{"countdown": "soon"}, {"countdown": float("nan")}, {"countdown": 1e12}, {"eta": "2026-01-01"}]
    )
    def test_a_time_that_is_none_is_a_failure_of_its_own(self, define, deliver, fire_of, when):
        task = define(lambda self: self.retry(exc=OSError("x"), **when), bind=True)
        told = deliver(fire_of(task, policy={"max_attempts": 1}))

        assert isinstance(told.value, InvalidField)
        assert Fire.objects.get().state == "dead"

    @pytest.mark.parametrize("when", [-5, timedelta(days=-1), datetime.now(UTC) - timedelta(hours=1)])
    def test_what_is_past_is_now(self, define, deliver, fire_of, when):
        deliver(fire_of(define(raising(Retry(when=when)))))
        assert Fire.objects.get().wake_at == NOON

    def test_one_that_is_raised_by_hand_with_no_time_has_the_jobs_backoff(self, define, deliver, fire_of):
        policy = {"retry_base": timedelta(0), "retry_cap": timedelta(0)}
        deliver(fire_of(define(raising(Retry(when="soon"))), policy=policy))  # type: ignore[arg-type]
        assert Fire.objects.get().wake_at == NOON

    def test_autoretry_goes_through_the_ledger(self, define, deliver, fire_of, published):
        options = {"autoretry_for": (OSError,), "retry_kwargs": {"countdown": 45}}
        fire = fire_of(define(raising(OSError("x")), **options))

        assert deliver(fire).state == "RETRY"
        assert Fire.objects.get().wake_at == NOON + timedelta(seconds=45)
        assert published == []

    @pytest.mark.parametrize(
        "options",
        [
            {"autoretry_for": (OSError,), "retry_kwargs": {"max_retries": 1}},
            {"autoretry_for": (OSError,), "max_retries": 1},
            {"max_retries": 1},
        ],
    )
    def test_a_limit_of_ones_own_bounds_the_attempts_that_count(self, define, deliver, fire_of, options):
        boom = OSError("x")
        task = define(raising(boom), **options)
        snoozed = fire_of(task, attempt=1, max_attempts=6, policy={"max_attempts": 5})
        assert deliver(snoozed).state == "RETRY", "the second attempt, and the first that counts"

        tried = fire_of(task, attempt=1, policy={"max_attempts": 5})
        told = deliver(tried)
        assert (told.state, told.value) == ("FAILURE", boom)
        row = Fire.objects.by_id(tried.id)
        assert (row.state, row.reason, row.attempt) == ("dead", "attempts_exhausted", 2)

    def test_what_autoretry_leaves_out_is_given_up(self, define, deliver, fire_of):
        options = {"autoretry_for": (OSError,), "dont_autoretry_for": (FileNotFoundError,)}
        for error in (ValueError("x"), FileNotFoundError("x")):
            fire = fire_of(define(raising(error), **options))
            assert deliver(fire).value is error
            assert Fire.objects.by_id(fire.id).reason == "gave_up"


def test_reject_never_reaches_the_broker(define, deliver, fire_of):
    assert deliver(fire_of(define(raising(Reject("no", requeue=True))))).state == "RETRY"

    told = deliver(fire_of(define(raising(Reject("no", requeue=True))), policy={"max_attempts": 1}))
    assert told.state == "FAILURE"
    assert isinstance(told.value, RejectedByTask)


def test_a_task_that_ignores_itself_has_succeeded(define, deliver, fire_of):
    assert deliver(fire_of(define(raising(Ignore())))).state == "IGNORED"
    assert Fire.objects.get().state == "succeeded"


def test_the_lease_lost_at_the_end_is_another_workers_result(define, deliver, fire_of):
    fire = fire_of(define(lambda: Fire.objects.update(fence=2, state="claimed", holder=None, lease_until=None)))
    before = refusals().get("lease_lost", 0)

    assert deliver(fire).state == "IGNORED"
    assert refusals()["lease_lost"] == before + 1
    assert Fire.objects.get().state == "claimed"
    assert not JobRun.objects.exists()


def test_the_lease_lost_before_a_failure_is_too(define, deliver, fire_of):
    def task():
        Fire.objects.update(fence=2, state="claimed", holder=None, lease_until=None)
        raise ValueError

    assert deliver(fire_of(define(task))).state == "IGNORED"
    assert (Fire.objects.get().state, Fire.objects.get().fence) == ("claimed", 2)


def test_a_lease_that_the_database_does_not_give_at_once_is_taken_later(define, deliver, fire_of, monkeypatch):
    acquire, failures = PostgresLedger.acquire, iter([OperationalError("down")] * 2)

    def sometimes(*args):
        for failure in failures:
            raise failure
        return acquire(*args)

    monkeypatch.setattr(PostgresLedger, "acquire", sometimes)

    assert deliver(fire_of(define(lambda: None))).state == "SUCCESS"
    assert Fire.objects.get().state == "succeeded"


@pytest.mark.parametrize(("lease_s", "hard_timeout_s"), [(0.05, 60), (60, 0.1)])
def test_when_it_never_is_the_message_goes_back_to_the_broker_before_celery_could_acknowledge_it(
    define, deliver, fire_of, settings, monkeypatch, lease_s, hard_timeout_s
):
    settings.SCHEDULING = settings.SCHEDULING | {"FIRE_LEASE_S": lease_s}

    def never(*_):
        raise OperationalError("down")

    monkeypatch.setattr(PostgresLedger, "acquire", never)
    policy = {"hard_timeout_s": hard_timeout_s}

    told = deliver(fire_of(define(lambda: pytest.fail("it ran")), policy=policy))

    assert (told.state, told.value.requeue) == ("REJECTED", True)
    assert Fire.objects.get().state == "claimed"


def test_an_end_that_the_database_does_not_take_is_written_later(define, deliver, fire_of, monkeypatch):
    complete, failures = PostgresLedger.complete, iter([OperationalError("down")] * 2)

    def sometimes(*args, **options):
        for failure in failures:
            raise failure
        complete(*args, **options)

    monkeypatch.setattr(PostgresLedger, "complete", sometimes)

    assert deliver(fire_of(define(lambda: None))).state == "SUCCESS"
    assert Fire.objects.get().state == "succeeded"


@pytest.mark.parametrize("is_written", [True, False])
def test_a_soft_timeout_in_the_midst_of_that_does_not_undo_what_the_task_has_done(
    define, deliver, fire_of, monkeypatch, is_written
):
    complete, timeouts = PostgresLedger.complete, iter([SoftTimeLimitExceeded()])

    def interrupted(*args, **options):
        for timeout in timeouts:
            if is_written:
                complete(*args, **options)
            raise timeout
        complete(*args, **options)

    monkeypatch.setattr(PostgresLedger, "complete", interrupted)

    assert deliver(fire_of(define(lambda: "done"))).value == "done"
    assert Fire.objects.get().state == "succeeded"
    assert JobRun.objects.count() == 1


def test_when_it_never_is_the_failure_is_told_and_the_lease_runs_out(define, deliver, fire_of, settings, monkeypatch):
    settings.SCHEDULING = settings.SCHEDULING | {"FIRE_LEASE_S": 0.05}

    def never(*_, **__):
        raise OperationalError("down")

    monkeypatch.setattr(PostgresLedger, "complete", never)

    assert deliver(fire_of(define(lambda: None))).state == "FAILURE"
    assert Fire.objects.get().state == "running"


def test_a_whole_run_asks_the_database_twice(define, deliver, fire_of):
    fire = fire_of(define(lambda: None))
    deliver(fire)  # warm: imports, settings
    Fire.objects.update(state="claimed", fence=2, holder=None)
    fire = Fire.objects.select_related("job__tenant").get()

    with counted_round_trips() as trips:
        deliver(fire)
    assert len(trips) == 2


def test_a_direct_call_or_apply_runs_as_an_ordinary_task(define):
    task = define(lambda value: (value, current_job(None)))

    assert task(3) == (3, None)
    assert task.apply(args=(3,)).get() == (3, None)
    assert not Fire.objects.exists()


def test_outside_a_fire_current_job_says_so(define):
    with pytest.raises(NoCurrentJob, match="does not run on behalf of a job"):
        current_job()
    assert isinstance(define(current_job).apply().result, NoCurrentJob)


def test_a_task_that_calls_itself_and_others_as_functions_acquires_once(define, deliver, fire_of):
    other = define(lambda: current_job().attempt)

    def task(self, deep=True):
        return [self(deep=False), other()] if deep else current_job().attempt

    fire = fire_of(define(task, bind=True))

    assert deliver(fire).state == "SUCCESS"
    assert JobRun.objects.get().result == "[1, 1]"


def test_after_the_run_there_is_no_current_job(define, deliver, fire_of):
    deliver(fire_of(define(raising(ValueError()))))

    assert current_job(None) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"fb_job": None},
        {"fb_job": 7},
        {"fb_fence": "first"},
        {"fb_fence": 0},
        {"fb_fence": 2**31},
        {"fb_keep": float("inf")},
        {"fb_for": "2026-03-02T12:00:00"},
        {"fb_tenant": None},
        {"fb_origin": "nul\x00"},
    ],
)
def test_headers_that_name_no_readable_fire_are_for_the_dead_letters(define, deliver, fire_of, headers):
    before = refusals().get("unreadable", 0)

    told = deliver(fire_of(define(lambda: pytest.fail("it ran"))), **headers)

    assert (told.state, told.value.requeue) == ("REJECTED", False)
    assert refusals()["unreadable"] == before + 1
    assert Fire.objects.get().state == "claimed"


class TestAForgedMessage:
    """It names a fire that is another tenant's, or came through another's queue."""

    @pytest.fixture
    def fire(self, define, fire_of):
        return fire_of(define(lambda: pytest.fail("it ran")))

    @pytest.mark.parametrize(
        "headers",
        [
            {"fb_tenant": "acme"},
            {"delivery_info": {"exchange": "", "routing_key": "fairbeat.acme.bulk.v1"}},
            {"delivery_info": {"exchange": "", "routing_key": "fairbeat.acme.eu.bulk.v1-m100"}},
        ],
    )
    def test_is_for_the_dead_letters_and_changes_nothing(self, deliver, fire, headers):
        before = refusals().get("forged", 0)

        told = deliver(fire, **headers)

        assert (told.state, told.value.requeue) == ("REJECTED", False)
        assert refusals()["forged"] == before + 1
        assert (Fire.objects.get().state, Fire.objects.get().attempt) == ("claimed", 0)

    @pytest.mark.parametrize(
        "queue", ["fairbeat.default.bulk.v1", "fairbeat.default", "celery", "other.acme.bulk.v1", None]
    )
    def test_its_own_queue_and_those_that_are_no_tenants_are_not_judged(self, define, deliver, fire_of, queue):
        told = deliver(fire_of(define(lambda: "ran")), delivery_info={"exchange": "", "routing_key": queue})
        assert told.value == "ran"
