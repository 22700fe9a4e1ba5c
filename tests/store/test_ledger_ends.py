"""How a run ends without success: given up, put off, cancelled, lost; and the dead letter of whoever dies of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduling.core.errors import LeaseLost
from scheduling.core.fingerprint import essence, fingerprint
from scheduling.core.fire import State
from scheduling.models import DeadLetter, Fire, Job, JobRun
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Failure
from tests.fires import NOON, delivery_of, make_fire, make_job, row_of
from tests.store.ledger_plans import acquired, counted_round_trips

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("stopped_clock")]

HOUR = timedelta(hours=1)
BASE, CAP = timedelta(seconds=10), timedelta(seconds=25)
NOW = NOON + timedelta(minutes=1)  # of the stopped clock
TRACE = 'Traceback\n  File "/srv/app/tasks.py", line 7, in charge\n    boom()\n'
BOOM = Failure("ValueError: order 17 is unknown\nand more", TRACE)


@pytest.fixture
def ledger() -> PostgresLedger:
    """Its backoff is half of the longest. (What is rare keeps no plans; ``test_ledger`` has what does.)"""
    return PostgresLedger("default", lease=timedelta(seconds=30), rand=lambda: 0.5)


def run_of(ledger: PostgresLedger, fire: Fire) -> Acquired:
    return acquired(ledger, delivery_of(fire))


def ask_to_stop(fire: Fire, reason: str = "a newer one is due") -> None:
    Fire.objects.filter(id=fire.id).update(cancel_reason=reason)


def standing(fire: Fire) -> tuple[Any, ...]:
    row = row_of(fire)
    return row.state, row.reason, row.fence, row.attempt, row.max_attempts, row.wake_at


class TestGivingUp:
    def test_no_attempt_follows_however_many_are_left(self, ledger):
        fire = make_fire(make_job(max_attempts=5))

        assert ledger.fail(run_of(ledger, fire), BOOM, worker="w", delay=None) is State.DEAD
        assert standing(fire) == ("dead", "gave_up", 2, 1, 5, None)
        assert row_of(fire).finished_at is not None
        assert JobRun.objects.get().state == "failed"

    def test_its_reason_may_be_another_one(self, ledger):
        fire = make_fire(make_job())

        ledger.fail(run_of(ledger, fire), BOOM, worker="w", delay=None, reason="attempts_exhausted")
        assert (row_of(fire).reason, DeadLetter.objects.get().reason) == ("attempts_exhausted", "attempts_exhausted")

    def test_a_failure_that_was_asked_to_stop_is_not_tried_again(self, ledger):
        fire = make_fire(make_job())
        run = run_of(ledger, fire)
        ask_to_stop(fire)

        for _ in range(2):  # a reply may be lost
            assert ledger.fail(run, BOOM, worker="w", delay=HOUR) is State.DEAD
        assert standing(fire)[:2] == ("dead", "cancelled")
        assert (JobRun.objects.get().state, DeadLetter.objects.get().reason) == ("failed", "cancelled")


class TestDeadLetter:
    def test_it_holds_what_a_redrive_and_a_reader_need(self, ledger):
        job = make_job(max_attempts=1, args=[1, "x"], kwargs={"k": None}, overlap="buffer_all")
        fire = make_fire(job, origin="manual:7", fire_at=NOON + HOUR, fence=4)

        ledger.fail(run_of(ledger, fire), BOOM, worker="w1@host", delay=HOUR)

        letter = DeadLetter.objects.get()
        assert (letter.fire_id, letter.job_id, letter.tenant_id) == (fire.id, job.id, job.tenant_id)
        assert (letter.shard_id, letter.history_days, letter.schedule_version) == (job.shard_id, 30, 1)
        assert (letter.scheduled_for, letter.fire_at, letter.origin) == (NOON, NOON + HOUR, "manual:7")
        assert (letter.fence, letter.attempts, letter.exclusive) == (row_of(fire).fence, 1, True)
        assert (letter.task, letter.args, letter.kwargs) == (job.task, [1, "x"], {"k": None})
        assert (letter.reason, letter.worker) == ("attempts_exhausted", "w1@host")
        assert (letter.error, letter.traceback) == ("ValueError: order 17 is unknown", TRACE)
        assert letter.fingerprint == fingerprint(job.task, "attempts_exhausted", essence(BOOM.error, TRACE))
        assert abs(letter.died_at - datetime.now(UTC)) < HOUR
        assert (letter.redriven_at, letter.redrives, letter.queue, letter.message) == (None, 0, "", None)

    def test_a_failure_that_is_tried_again_has_none_and_costs_one_round_trip(self, ledger):
        one, two = (make_fire(make_job()) for _ in range(2))
        ledger.fail(run_of(ledger, one), BOOM, worker="w", delay=HOUR)  # prepares
        run = run_of(ledger, two)

        with counted_round_trips() as trips:
            ledger.fail(run, BOOM, worker="w", delay=HOUR)
        assert len(trips) == 1
        assert not DeadLetter.objects.exists()

    def test_who_dies_again_waits_again_for_someone_to_decide(self, ledger):
        fire = make_fire(make_job(max_attempts=1))
        ledger.fail(run_of(ledger, fire), BOOM, worker="w1", delay=HOUR)
        DeadLetter.objects.update(redriven_at=NOW, redrives=1, died_at=NOON)
        Fire.objects.update(state="claimed", fence=3, max_attempts=2, finished_at=None)

        ledger.fail(acquired(ledger, delivery_of(fire, fence=3)), Failure("other"), worker="w2", delay=None)

        letter = DeadLetter.objects.get()
        assert (letter.reason, letter.error, letter.worker) == ("gave_up", "other", "w2")
        assert (letter.fence, letter.attempts, letter.traceback) == (4, 2, "")
        assert (letter.redriven_at, letter.redrives) == (None, 1)
        assert letter.died_at > NOON

    def test_texts_are_cut_to_what_postgres_and_a_list_can_hold(self, ledger):
        fire = make_fire(make_job())

        failure = Failure("nul \x00 and \ud800 " + "x" * 5_000, "t" * 100_000)
        ledger.fail(run_of(ledger, fire), failure, worker="w", delay=None)

        letter = DeadLetter.objects.get()
        assert len(letter.error) == 500
        assert letter.error.startswith("nul \N{REPLACEMENT CHARACTER} and ?")
        assert len(letter.traceback) == 16_000

    def test_what_is_buried_has_one_too(self, ledger):
        fire = make_fire(make_job())

        assert ledger.bury(delivery_of(fire), "unknown_task", error="there is no task 'x'")
        letter = DeadLetter.objects.get()
        assert (letter.reason, letter.error, letter.attempts, letter.fence) == (
            "unknown_task",
            "there is no task 'x'",
            0,
            row_of(fire).fence,
        )

    def test_a_job_whose_row_is_gone_leaves_its_place_empty(self, ledger):
        fire = make_fire(make_job())
        Job.objects.filter(pk=fire.job_id)._raw_delete("default")

        assert ledger.bury(delivery_of(fire), "unknown_task")
        letter = DeadLetter.objects.get()
        assert (letter.task, letter.args, letter.kwargs) == ("", [], {})


class TestSnoozing:
    def test_it_comes_back_with_as_many_attempts_as_before(self, ledger):
        fire = make_fire(make_job(max_attempts=1))

        for snoozes in (1, 2, 3):
            run = acquired(ledger, delivery_of(fire, fence=snoozes))
            assert (run.attempt, run.counted) == (snoozes, 1)
            assert ledger.snooze(run, worker="w", delay=HOUR) is State.RETRY_WAIT
            assert standing(fire) == ("retry_wait", "snoozed", snoozes + 1, snoozes, snoozes + 1, NOW + HOUR)
            Fire.objects.update(state="claimed", wake_at=None)

        assert set(JobRun.objects.values_list("state", flat=True)) == {"snoozed"}
        assert ledger.fail(acquired(ledger, delivery_of(fire, fence=4)), BOOM, worker="w", delay=HOUR) is State.DEAD

    def test_told_twice_it_is_put_off_once(self, ledger):
        fire = make_fire(make_job())
        run = run_of(ledger, fire)

        for _ in range(2):
            assert ledger.snooze(run, worker="w", delay=HOUR) is State.RETRY_WAIT
        assert standing(fire)[2:5] == (2, 1, 4)
        assert JobRun.objects.count() == 1

    def test_one_that_was_asked_to_stop_is_cancelled_in_its_place(self, ledger):
        fire = make_fire(make_job())
        run = run_of(ledger, fire)
        ask_to_stop(fire, "enough")

        for _ in range(2):
            assert ledger.snooze(run, worker="w", delay=HOUR) is State.DEAD
        assert standing(fire)[:2] == ("dead", "cancelled")
        assert JobRun.objects.get().state == "cancelled"
        assert (DeadLetter.objects.get().reason, DeadLetter.objects.get().error) == ("cancelled", "enough")


class TestCancelling:
    def test_the_fire_is_dead_with_the_reason_that_the_task_gave(self, ledger):
        fire = make_fire(make_job())
        run = run_of(ledger, fire)

        for _ in range(2):
            assert ledger.cancel(run, worker="w", reason="no such user 17") is State.DEAD
        assert standing(fire)[:4] == ("dead", "cancelled", 2, 1)
        assert (JobRun.objects.get().state, JobRun.objects.get().error) == ("cancelled", "no such user 17")
        letter = DeadLetter.objects.get()
        assert (letter.reason, letter.error) == ("cancelled", "no such user 17")
        assert letter.fingerprint == fingerprint(fire.job.task, "cancelled", essence("no such user 18"))

    def test_a_run_that_was_asked_to_stop_and_ignored_it_has_succeeded(self, ledger):
        fire = make_fire(make_job())
        run = run_of(ledger, fire)
        ask_to_stop(fire)

        ledger.complete(run, worker="w", result="")
        assert row_of(fire).state == "succeeded"
        assert not DeadLetter.objects.exists()

    def test_the_heartbeat_says_who_is_to_stop_and_why(self, ledger):
        one, two = (make_fire(make_job()) for _ in range(2))
        runs = [run_of(ledger, fire) for fire in (one, two)]
        ask_to_stop(one, "enough")

        renewal = ledger.heartbeat([run.delivery for run in runs])
        assert (renewal.lost, renewal.cancelled) == (frozenset(), {runs[0].delivery.holder: "enough"})


class TestLosing:
    """The process of the run is gone, and another one says so."""

    def lose(self, ledger: PostgresLedger, run: Acquired, run_state: Any = "lost", **said: Any) -> State | None:
        return ledger.lose(run.delivery, **({"worker": "parent", "error": "signal 9", "run_state": run_state} | said))

    @pytest.mark.parametrize(
        ("run_state", "attempt", "reason", "wait"),
        [
            ("lost", 0, "lease_lost", timedelta(0)),
            ("lost", 1, "lease_lost", BASE / 2),
            ("lost", 3, "lease_lost", CAP / 2),
            ("timed_out", 0, "timed_out", BASE / 2),
            ("timed_out", 1, "timed_out", BASE),
        ],
    )
    def test_the_first_of_a_killed_process_is_tried_again_at_once_and_all_else_with_backoff(
        self, ledger, run_state, attempt, reason, wait
    ):
        job = make_job(max_attempts=9, retry_base=BASE, retry_cap=CAP)
        fire = make_fire(job, attempt=attempt, fence=7)

        assert self.lose(ledger, run_of(ledger, fire), run_state) is State.RETRY_WAIT
        assert standing(fire) == ("retry_wait", reason, 8, attempt + 1, 9, NOW + wait)
        run = JobRun.objects.get()
        assert (run.state, run.error, run.worker, run.fence) == (run_state, "signal 9", "parent", 7)

    def test_snoozes_are_no_reason_to_wait(self, ledger):
        fire = make_fire(make_job(max_attempts=2), attempt=4, max_attempts=6)

        self.lose(ledger, run_of(ledger, fire))
        assert standing(fire)[-1] == NOW

    @pytest.mark.parametrize("run_state", ["lost", "timed_out"])
    def test_the_last_attempt_makes_it_dead(self, ledger, run_state):
        fire = make_fire(make_job(max_attempts=1))

        assert self.lose(ledger, run_of(ledger, fire), run_state) is State.DEAD
        assert standing(fire)[:2] == ("dead", "attempts_exhausted")
        assert (DeadLetter.objects.get().error, DeadLetter.objects.get().worker) == ("signal 9", "parent")

    @pytest.mark.parametrize("why", [{"deleted_at": NOON}, {}], ids=["its job is deleted", "it was asked to stop"])
    def test_what_is_called_off_is_not_tried_again(self, ledger, why):
        fire = make_fire(make_job())
        run = run_of(ledger, fire)
        Job.objects.update(**why) if why else ask_to_stop(fire)

        assert self.lose(ledger, run) is State.DEAD
        assert (row_of(fire).reason, DeadLetter.objects.get().reason) == ("cancelled", "cancelled")

    @pytest.mark.parametrize(("max_attempts", "state"), [(1, State.DEAD), (3, State.RETRY_WAIT)])
    def test_told_twice_it_answers_the_same(self, ledger, max_attempts, state):
        fire = make_fire(make_job(max_attempts=max_attempts))
        run = run_of(ledger, fire)

        assert self.lose(ledger, run) is state
        before = standing(fire)
        assert self.lose(ledger, run) is state
        assert standing(fire) == before
        assert JobRun.objects.count() == 1

    def test_a_run_that_has_ended_itself_is_none_to_lose(self, ledger):
        completed, failed = (make_fire(make_job()) for _ in range(2))
        one, two = run_of(ledger, completed), run_of(ledger, failed)
        ledger.complete(one, worker="child", result="")
        ledger.fail(two, BOOM, worker="child", delay=HOUR)

        assert (self.lose(ledger, one), self.lose(ledger, two)) == (None, None)
        assert set(JobRun.objects.values_list("state", flat=True)) == {"succeeded", "failed"}

    def test_a_run_that_its_owner_has_called_lost_is_none_to_lose(self, ledger):
        fire = make_fire(make_job())
        run = run_of(ledger, fire)
        self.lose(ledger, run, worker="")

        assert self.lose(ledger, run) is None

    def test_the_copy_of_another_process_is_left_alone(self, ledger):
        fire = make_fire(make_job())
        run_of(ledger, fire)

        assert ledger.lose(delivery_of(fire), worker="parent", error="signal 9", run_state="lost") is None
        assert row_of(fire).state == "running"


@pytest.mark.parametrize(
    "end",
    [
        lambda ledger, run: ledger.fail(run, BOOM, worker="w", delay=None),
        lambda ledger, run: ledger.snooze(run, worker="w", delay=HOUR),
        lambda ledger, run: ledger.cancel(run, worker="w", reason="x"),
    ],
    ids=["give up", "snooze", "cancel"],
)
class TestEachEnd:
    def test_a_stale_holder_is_refused_and_leaves_no_trace(self, ledger, end):
        fire = make_fire(make_job())
        stale = run_of(ledger, fire)
        Fire.objects.update(state="claimed", fence=2, holder=None, lease_until=None)
        run_of(ledger, row_of(fire))
        before = standing(fire)

        with pytest.raises(LeaseLost):
            end(ledger, stale)
        assert standing(fire) == before
        assert not JobRun.objects.exists()
        assert not DeadLetter.objects.exists()

    def test_after_a_completion_whose_reply_was_lost_it_says_that_it_succeeded(self, ledger, end):
        fire = make_fire(make_job())
        run = run_of(ledger, fire)
        ledger.complete(run, worker="w", result="")

        assert end(ledger, run) is State.SUCCEEDED
        assert row_of(fire).state == "succeeded"

    def test_it_wakes_whoever_waits_for_its_turn(self, ledger, end):
        job = make_job(overlap="buffer_all")
        fire = make_fire(job)
        waiting = make_fire(job, NOON + HOUR / 60, state="parked", reason="overlap", wake_at=NOON + HOUR)

        end(ledger, run_of(ledger, fire))
        assert row_of(waiting).wake_at == NOW
