"""What a cancellation does to fires in each state, of a job or by their ids, and what it refuses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from scheduling.core.errors import InvalidField
from scheduling.core.fingerprint import essence, fingerprint
from scheduling.models import DeadLetter, Fire, Job, ShardProgress, WorkerTask
from scheduling.services.cancel import Cancelled, cancel_fires
from scheduling.services.redrive import ask_redrive
from scheduling.signals import job_dead
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Refusal, Refused
from tests.fires import delivery_of
from tests.ledger_rows import DAY, add_fire
from tests.letters import add_dead, carry_out
from tests.processes import PATIENCE_S
from tests.services.conftest import SetTime
from tests.store.sessions import InThread, OpenSession, until_someone_waits


@pytest.fixture
def job(db: None, set_time: SetTime) -> Job:
    set_time(DAY)
    return Job.objects.cron("shop.report", "0 * * * *", name="report")


def cancelled(**values: Any) -> Cancelled:
    return cancel_fires(**{"by": "anna", "reason": "a mistake", **values})


@pytest.mark.parametrize(
    ("state", "attempt", "becomes", "outcome"),
    [
        ("claimed", 0, "skipped cancelled", Cancelled(1, 0)),
        ("parked", 0, "skipped cancelled", Cancelled(1, 0)),
        ("retry_wait", 0, "skipped cancelled", Cancelled(1, 0)),
        ("claimed", 1, "dead cancelled", Cancelled(1, 0)),
        ("parked", 1, "dead cancelled", Cancelled(1, 0)),
        ("retry_wait", 2, "dead cancelled", Cancelled(1, 0)),
        ("running", 1, "running ", Cancelled(0, 1)),
        ("succeeded", 1, "succeeded ", Cancelled(0, 0, over=1)),
        ("skipped", 0, "skipped missed", Cancelled(0, 0, over=1)),
        ("dead", 3, "dead missed", Cancelled(0, 0, over=1)),
    ],
)
@pytest.mark.parametrize("origin", ["", "manual:7"])
def test_what_has_not_started_never_does_and_what_runs_is_asked_to_stop(
    job: Job, state: str, attempt: int, becomes: str, outcome: Cancelled, origin: str
) -> None:
    fire = add_fire(job, state=state, attempt=attempt, origin=origin)
    assert cancelled(fires=[fire.pk, fire.pk]) == outcome
    fire.refresh_from_db()
    assert (f"{fire.state} {fire.reason}", fire.fence) == (becomes, 1)
    assert fire.cancel_reason == ("a mistake" if state == "running" else "")
    if outcome.at_once:
        assert (fire.wake_at, fire.finished_at is not None) == (None, True)
    assert DeadLetter.objects.count() == (becomes == "dead cancelled")


def test_one_that_had_started_leaves_a_dead_letter_that_says_why_and_can_be_redriven(job: Job) -> None:
    fire = add_fire(job, state="retry_wait", attempt=2, fence=3)
    cancelled(fires=[fire.pk], reason="a mistake\nof mine")
    letter = DeadLetter.objects.get()
    assert (letter.fire_id, letter.job, letter.reason, letter.error) == (fire.pk, job, "cancelled", "a mistake")
    assert (letter.fence, letter.attempts, letter.task) == (3, 2, "shop.report")
    assert letter.fingerprint == fingerprint("shop.report", "cancelled", essence("a mistake"))
    ask_redrive([letter], by="anna")
    assert carry_out() == 1


def test_all_that_is_unfinished_of_jobs_and_nothing_of_others(job: Job) -> None:
    other = Job.objects.cron("t", "0 * * * *", name="other")
    Job.objects.filter(pk=other.pk).update(shard_id=job.shard_id)
    states = ["claimed", "parked", "retry_wait", "running", "succeeded"]
    for minute, state in enumerate(states):
        for one in (job, other):
            add_fire(one, DAY + timedelta(minutes=minute), state=state)
    assert cancelled(jobs=Job.objects.filter(name="report")) == Cancelled(at_once=3, asked=1)
    assert sorted(Fire.objects.filter(job=other).values_list("state", flat=True)) == sorted(states)
    assert not Fire.objects.filter(job=other).exclude(cancel_reason="").exists()


def test_the_schedule_goes_on(job: Job) -> None:
    add_fire(job)
    before = Job.objects.values("next_scheduled_for", "next_fire_at", "schedule_version", "paused_at").get()
    cancelled(jobs=[job])
    assert Job.objects.values("next_scheduled_for", "next_fire_at", "schedule_version", "paused_at").get() == before


def test_the_first_who_asks_a_run_to_stop_has_said_why(job: Job) -> None:
    fire = add_fire(job, state="running")
    assert cancelled(jobs=[job]) == cancelled(fires=[fire.pk], reason="another") == Cancelled(0, 1)
    fire.refresh_from_db()
    assert fire.cancel_reason == "a mistake"


def test_without_a_reason_a_run_is_told_who_cancelled_it(job: Job) -> None:
    fire = add_fire(job, state="running")
    cancelled(fires=[fire.pk], reason=" ")
    fire.refresh_from_db()
    assert fire.cancel_reason == "cancelled by anna"


@pytest.mark.parametrize("how", ["a cancellation", "a deletion"])
def test_who_listens_is_told_of_what_died_once_it_is_committed(committed_db: None, how: str) -> None:
    job = Job.objects.cron("shop.report", "0 * * * *", name="report")
    fire = add_fire(job, state="retry_wait", attempt=2)
    add_fire(job, DAY + timedelta(minutes=1), state="retry_wait")
    told: list[dict[str, Any]] = []

    def hear(sender: object, signal: object, **facts: Any) -> None:
        told.append(facts)

    job_dead.connect(hear)
    try:
        with transaction.atomic():
            if how == "a deletion":
                job.delete()
            else:
                cancelled(jobs=[job])
            assert told == []
    finally:
        job_dead.disconnect(hear)
    [facts] = told
    assert (facts["fire_id"], facts["job_id"], facts["name"], facts["tenant"]) == (fire.pk, job.pk, "report", "default")
    assert (facts["attempt"], facts["reason"], facts["task"]) == (2, "cancelled", "shop.report")


# -- plain Celery tasks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [{"seq_epoch": 2, "seq": 5}, {"seq_epoch": 1, "seq": 9}, {"confirmed": True}])
def test_what_a_plain_celery_task_was_sent_is_left_and_told(job: Job, sent: dict[str, Any]) -> None:
    ShardProgress.objects.filter(shard_id=job.shard_id).update(seq_epoch=2, seq=5)
    fire = add_fire(job, **sent)
    unsent = add_fire(job, DAY + timedelta(hours=1), seq_epoch=2, seq=6)
    assert cancelled(jobs=[job]) == Cancelled(at_once=1, asked=0, sent=1)
    assert {f.pk: f.state for f in Fire.objects.all()} == {fire.pk: "claimed", unsent.pk: "skipped"}


@pytest.mark.parametrize("knows", ["an earlier run", "its workers"])
def test_what_was_sent_to_a_task_that_acquires_is_cancelled(job: Job, knows: str) -> None:
    if knows == "an earlier run":
        add_fire(job, DAY - timedelta(hours=1), state="succeeded")
    else:
        WorkerTask.objects.create(name="shop.report", is_guarded=True, seen_at=DAY)
    add_fire(job, confirmed=True)
    assert cancelled(jobs=[job]) == Cancelled(at_once=1, asked=0)


def test_a_redrive_of_one_that_no_worker_knew_does_not_say_that_its_task_acquires(job: Job) -> None:
    add_dead(job, DAY - timedelta(hours=1), attempt=0, reason="unknown_task")
    ask_redrive(DeadLetter.objects.all(), by="anna")
    carry_out()
    Fire.objects.update(state="claimed", confirmed=True, wake_at=None)
    assert cancelled(jobs=[job]) == Cancelled(at_once=0, asked=0, sent=1)


# -- those behind it -------------------------------------------------------------------------------------------------


def test_the_first_that_waited_behind_it_is_due_now(job: Job) -> None:
    Job.objects.update(overlap="buffer_all")
    later = {"state": "parked", "reason": "overlap", "exclusive": True, "wake_at": DAY + timedelta(hours=9)}
    first, second, third = (add_fire(job, DAY + timedelta(minutes=n), **later) for n in range(3))
    cancelled(fires=[first.pk])
    wakes = dict(Fire.objects.values_list("pk", "wake_at"))
    assert wakes == {first.pk: None, second.pk: DAY, third.pk: DAY + timedelta(hours=9)}


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"by": ""}, "by '': is needed"),
        ({"reason": "x" * 501}, "longer than 500"),
        ({"reason": "a\x00"}, "NUL"),
        ({"fires": [UUID(int=7)]}, "there is no such fire"),
        ({"fires": [UUID(int=2**128 - 1)]}, "there is no such fire"),
        ({"fires": [uuid4() for _ in range(10_001)]}, "fires 10001: are more than 10,000 at once"),
    ],
    ids=["by", "reason", "nul", "unknown", "far", "many"],
)
def test_what_cannot_be_is_refused_and_cancels_nothing(job: Job, values: dict[str, Any], words: str) -> None:
    fire = add_fire(job)
    with pytest.raises(InvalidField, match=words):
        cancelled(**{"jobs": [job], **values})
    fire.refresh_from_db()
    assert fire.state == "claimed"


def test_nothing_named_is_nothing_to_do(db: None) -> None:
    assert cancelled() == Cancelled(0, 0)


# -- races -----------------------------------------------------------------------------------------------------------


def test_an_acquire_waits_for_a_cancellation_in_flight_and_is_refused(committed_db: None, in_thread: InThread) -> None:
    fire = add_fire(Job.objects.cron("t", "0 * * * *"))
    ledger = PostgresLedger("default", lease=timedelta(seconds=30))
    with transaction.atomic():
        assert cancelled(fires=[fire.pk]).at_once == 1
        acquiring = in_thread(ledger.acquire, delivery_of(fire))
        until_someone_waits()
    assert acquiring.result() == Refused(Refusal.DONE)


def test_one_that_was_acquired_just_before_is_asked_to_stop_and_its_worker_hears_of_it(
    committed_db: None, open_session: OpenSession
) -> None:
    fire = add_fire(Job.objects.cron("t", "0 * * * *"))
    ledger = PostgresLedger("default", lease=timedelta(seconds=30))
    worker = open_session("a worker")
    worker.execute("LISTEN fairbeat_cancel")
    delivery = delivery_of(fire)
    assert isinstance(ledger.acquire(delivery), Acquired)
    assert cancelled(fires=[fire.pk]) == Cancelled(0, 1)
    [notice] = worker.notifies(timeout=PATIENCE_S, stop_after=1)
    assert notice.payload == str(fire.pk)
    assert ledger.heartbeat([delivery]).cancelled == {delivery.holder: "a mistake"}
