"""How a task ends its own attempt, what becomes of the fire, and what Celery is told."""

from __future__ import annotations

import pickle
from asyncio import CancelledError
from datetime import timedelta

import pytest
from celery.exceptions import Retry as CeleryRetry
from celery.exceptions import WorkerTerminate

from scheduling import Cancel, InvalidField, LeaseLost, Retry, Snooze, current_job
from scheduling.models import DeadLetter, Fire, JobClock, JobRun
from scheduling.worker.errors import LONGEST_DELAY, TaskExited
from scheduling.worker.refusals import refusals
from tests.fires import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _stopped_clock(db: None) -> None:
    JobClock.objects.create(job_origin=NOON, real_origin=None)


def raising(error: BaseException):
    def task():
        raise error

    return task


def asked_to_stop(then: BaseException):
    """A task that a person cancels while it runs, and that has not heard of it."""

    def task():
        Fire.objects.update(cancel_reason="no longer wanted")
        raise then

    return task


def death() -> tuple[str, str, str]:
    fire, letter = Fire.objects.get(), DeadLetter.objects.get()
    assert letter.reason == fire.reason
    return fire.state, fire.reason, JobRun.objects.get().state


class TestRetry:
    def test_it_says_when_the_fire_is_tried_again(self, define, deliver, fire_of, published):
        told = deliver(fire_of(define(raising(Retry(in_=timedelta(minutes=2))))))

        row = Fire.objects.get()
        assert (row.state, row.reason, row.fence, row.attempt) == ("retry_wait", "failed", 2, 1)
        assert row.wake_at == NOON + timedelta(minutes=2)
        assert (told.state, told.value.when) == ("RETRY", 120.0)
        assert published == []

    def test_it_may_be_at_once(self, define, deliver, fire_of):
        policy = {"retry_base": timedelta(hours=1), "retry_cap": timedelta(hours=1)}
        deliver(fire_of(define(raising(Retry(in_=0))), policy=policy))

        assert Fire.objects.get().wake_at == NOON

    def test_without_a_time_the_jobs_backoff_says_when(self, define, deliver, fire_of):
        policy = {"retry_base": timedelta(0), "retry_cap": timedelta(0)}
        deliver(fire_of(define(raising(Retry())), policy=policy))

        assert Fire.objects.get().wake_at == NOON

    def test_what_it_was_raised_from_is_what_the_history_shows(self, define, deliver, fire_of):
        cause = OSError("no route")

        def task():
            try:
                raise cause
            except OSError as error:
                raise Retry(in_=5) from error

        assert deliver(fire_of(define(task))).value.exc is cause
        assert JobRun.objects.get().error == "OSError: no route"

    def test_it_is_an_attempt_and_the_last_one_is_the_end(self, define, deliver, fire_of):
        told = deliver(fire_of(define(raising(Retry("still busy"))), policy={"max_attempts": 1}))

        assert told.state == "FAILURE"
        assert death() == ("dead", "attempts_exhausted", "failed")

    def test_it_is_tried_again_whatever_is_given_up_on(self, define, deliver, fire_of):
        fire = fire_of(define(raising(Retry()), retry_on=OSError, give_up_on=ValueError))
        assert deliver(fire).state == "RETRY"


class TestSnooze:
    def test_it_runs_again_then_and_the_attempt_does_not_count(self, define, deliver, fire_of, published):
        fire = fire_of(define(raising(Snooze(timedelta(hours=3)))), policy={"max_attempts": 1})

        told = deliver(fire)

        row = Fire.objects.get()
        assert (row.state, row.reason, row.fence, row.attempt, row.max_attempts) == ("retry_wait", "snoozed", 2, 1, 2)
        assert row.wake_at == NOON + timedelta(hours=3)
        assert JobRun.objects.get().state == "snoozed"
        assert told.state == "RETRY"
        assert isinstance(told.value, CeleryRetry)
        assert published == []

    def test_one_that_was_asked_to_stop_does_not_wait_for_anything(self, define, deliver, fire_of):
        assert deliver(fire_of(define(asked_to_stop(Snooze(5))))).state == "IGNORED"
        assert death() == ("dead", "cancelled", "cancelled")


class TestCancel:
    def test_the_fire_is_dead_and_its_reason_is_in_the_dead_letter(self, define, deliver, fire_of):
        told = deliver(fire_of(define(raising(Cancel("no such customer")))))

        assert told.state == "IGNORED"
        assert death() == ("dead", "cancelled", "cancelled")
        assert DeadLetter.objects.get().error == "no such customer"

    def test_the_result_is_that_it_was_revoked(self, define, deliver, fire_of, monkeypatch):
        from django_celery_results.backends import DatabaseBackend
        from django_celery_results.models import TaskResult

        from project.celery import app

        task = define(raising(Cancel("no such customer")))
        monkeypatch.setattr(type(task), "backend", DatabaseBackend(app=app))
        fire = fire_of(task)

        deliver(fire)
        assert TaskResult.objects.get(task_id=str(fire.id)).status == "REVOKED"

    def test_a_task_that_stops_because_it_was_asked_to_says_why(self, define, deliver, fire_of):
        def task():
            current_job().mark_cancelled("no longer wanted")
            current_job().check()

        deliver(fire_of(define(task)))
        assert DeadLetter.objects.get().error == "no longer wanted"

    def test_one_that_was_asked_to_stop_and_fails_is_not_tried_again(self, define, deliver, fire_of):
        boom = ValueError("boom")
        told = deliver(fire_of(define(asked_to_stop(boom))))

        assert (told.state, told.value) == ("FAILURE", boom)
        assert death() == ("dead", "cancelled", "failed")

    def test_one_that_was_asked_to_stop_and_succeeds_has_succeeded(self, define, deliver, fire_of):
        task = define(lambda: Fire.objects.update(cancel_reason="no longer wanted"))

        assert deliver(fire_of(task)).state == "SUCCESS"
        assert Fire.objects.get().state == "succeeded"


class TestGivingUp:
    def test_what_is_given_up_on_is_dead_at_once(self, define, deliver, fire_of):
        boom = KeyError("x")
        told = deliver(fire_of(define(raising(boom), give_up_on=LookupError)))

        assert (told.state, told.value) == ("FAILURE", boom)
        assert death() == ("dead", "gave_up", "failed")

    def test_where_it_says_what_is_tried_again_the_rest_is_given_up(self, define, deliver, fire_of):
        deliver(fire_of(define(raising(ValueError("x")), retry_on=(OSError,))))
        assert Fire.objects.get().reason == "gave_up"

    def test_what_is_tried_again_is_while_attempts_are_left(self, define, deliver, fire_of):
        task = define(raising(OSError("x")), retry_on=(OSError,))
        assert deliver(fire_of(task)).state == "RETRY"
        last = fire_of(task, policy={"max_attempts": 1})
        assert deliver(last).state == "FAILURE"
        assert Fire.objects.by_id(last.id).reason == "attempts_exhausted"


@pytest.mark.parametrize("error", [SystemExit(3), SystemExit(), CancelledError()])
class TestExit:
    """``sys.exit()`` and the like, in whatever pool: Celery would end the thread or the child, and say nothing."""

    def test_it_fails_the_attempt(self, define, deliver, fire_of, error):
        told = deliver(fire_of(define(raising(error))))

        row, run = Fire.objects.get(), JobRun.objects.get()
        assert (told.state, row.state, row.reason, run.state) == ("RETRY", "retry_wait", "failed", "failed")
        assert repr(error) in run.error
        assert "in task" in run.traceback

    def test_the_last_attempt_is_a_failure(self, define, deliver, fire_of, error):
        told = deliver(fire_of(define(raising(error)), policy={"max_attempts": 1}))

        assert death() == ("dead", "attempts_exhausted", "failed")
        assert (told.state, type(told.value)) == ("FAILURE", TaskExited)

    def test_behind_its_commit_it_does_not_count(self, define, deliver, fire_of, error):
        def task():
            with current_job().commit():
                pass
            raise error

        assert deliver(fire_of(define(task))).state == "SUCCESS"
        assert Fire.objects.get().state == "succeeded"


class TestTheWorkersEnd:
    """A child that is told to end raises SystemExit wherever it is: its parent says what becomes of the fire."""

    def test_it_is_no_failure_of_the_task(self, define, deliver, fire_of, monkeypatch):
        monkeypatch.setattr("scheduling.worker.attempt.terminate_handler_fired", lambda: True)
        with pytest.raises(SystemExit):
            deliver(fire_of(define(raising(SystemExit(-241)))))
        assert Fire.objects.get().state == "running"

    def test_nor_is_that_of_a_solo_worker(self, define, deliver, fire_of):
        with pytest.raises(WorkerTerminate):
            deliver(fire_of(define(raising(WorkerTerminate(1)))))
        assert Fire.objects.get().state == "running"


class TestOutOfMemory:
    """Celery's worker would end, with all that runs in it, if it were told so."""

    @pytest.mark.parametrize(("attempts", "state"), [(3, "RETRY"), (1, "FAILURE")])
    def test_only_its_own_fire_ends_by_it(self, define, deliver, fire_of, attempts, state):
        told = deliver(fire_of(define(raising(MemoryError("40 GB"))), policy={"max_attempts": attempts}))

        assert told.state == state
        assert not isinstance(told.value, MemoryError)
        assert JobRun.objects.get().error == "MemoryError: 40 GB"


class TestALeaseThatATaskCallsLost:
    def test_is_another_workers_where_it_is(self, define, deliver, fire_of):
        def task():
            Fire.objects.update(fence=2, state="claimed", holder=None, lease_until=None)
            raise LeaseLost("another has it")

        before = refusals().get("lease_lost", 0)
        assert deliver(fire_of(define(task))).state == "IGNORED"
        assert refusals()["lease_lost"] == before + 1
        assert Fire.objects.get().state == "claimed"

    def test_and_a_failure_where_it_is_not(self, define, deliver, fire_of):
        assert deliver(fire_of(define(raising(LeaseLost("it said so"))))).state == "RETRY"
        assert JobRun.objects.get().state == "failed"


class TestForNobody:
    """Called by ``delay()``: there is no ledger, and Celery has words of its own."""

    def test_a_retry_is_celerys(self, define):
        runs = []

        def task():
            runs.append(1)
            if len(runs) < 3:
                raise Retry(in_=0) from OSError("x")
            return "done"

        assert define(task).apply().get() == "done"

    def test_a_snooze_is_a_retry_that_is_always_left(self, define):
        runs = []

        def task():
            runs.append(1)
            if len(runs) < 6:
                raise Snooze(0)
            return "done"

        assert define(task).apply().get() == "done"

    def test_a_cancellation_is_no_failure(self, define):
        assert define(raising(Cancel("not today"))).apply().state == "IGNORED"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Retry(in_=-1), "is not between 0 and 366 days"),
        (lambda: Retry(in_=timedelta(days=-1)), "is not between 0 and 366 days"),
        (lambda: Retry(in_=float("nan")), "is not a number"),
        (lambda: Retry(in_=float("inf")), "is not within 366 days"),
        (lambda: Retry(in_=1e300), "is not within 366 days"),
        (lambda: Retry(in_=LONGEST_DELAY * 2), "is not between 0 and 366 days"),
        (lambda: Retry(in_="soon"), "is neither a timedelta nor a number of seconds"),  # type: ignore[arg-type]
        (lambda: Retry(in_=True), "is neither a timedelta nor a number of seconds"),
        (lambda: Retry(30), "is not text; say when by in_="),  # type: ignore[arg-type]
        (lambda: Snooze(-0.1), "is not between 0 and 366 days"),
        (lambda: Snooze(None), "is neither a timedelta nor a number of seconds"),  # type: ignore[arg-type]
        (lambda: Cancel(7), "is not text"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(make, problem):
    with pytest.raises(InvalidField, match=problem):
        make()


@pytest.mark.parametrize("ending", [Retry("busy", in_=3), Retry(), Snooze(3, "later"), Cancel("no"), Cancel()])
def test_they_survive_the_way_between_processes(ending):
    again = pickle.loads(pickle.dumps(ending))
    assert (type(again), vars(again), str(again)) == (type(ending), vars(ending), str(ending))
