"""What a pause does to jobs and to their fires in each state, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduling.core.errors import InvalidField
from scheduling.models import Fire, Job, ShardProgress
from scheduling.services.pause import Paused, pause
from tests.ledger_rows import DAY, add_fire
from tests.services.conftest import SetTime

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
def job(set_time: SetTime) -> Job:
    set_time(NOON)
    return Job.objects.cron("t", "0 * * * *", name="report")


def paused(*jobs: Job, **values: Any) -> Paused:
    return pause(jobs, **{"reason": "a release", "by": "anna", **values})


def test_a_paused_job_says_since_when_by_whom_why_until_when_and_then_what(job: Job) -> None:
    until = NOON + timedelta(hours=1)
    assert paused(job, until=until, catch_up="latest", reason="  a release ") == Paused(jobs=1, skipped=0)

    job.refresh_from_db()
    assert (job.paused_at, job.paused_until, job.catch_up) == (NOON, until, "latest")
    assert (job.paused_by, job.pause_reason) == ("anna", "a release")


@pytest.mark.parametrize(
    ("state", "attempt", "becomes"),
    [
        ("claimed", 0, "skipped paused"),
        ("parked", 0, "skipped paused"),
        ("retry_wait", 0, "skipped paused"),
        ("claimed", 1, "claimed "),
        ("parked", 1, "parked turn"),
        ("retry_wait", 2, "retry_wait turn"),
        ("running", 1, "running "),
        ("succeeded", 1, "succeeded "),
        ("skipped", 0, "skipped missed"),
        ("dead", 3, "dead missed"),
    ],
)
def test_what_has_not_started_is_skipped_and_anything_else_is_left(
    job: Job, state: str, attempt: int, becomes: str
) -> None:
    fire = add_fire(job, state=state, attempt=attempt)
    done = paused(job)

    fire.refresh_from_db()
    assert f"{fire.state} {fire.reason}" == becomes
    is_taken = becomes == "skipped paused"
    assert done.skipped == is_taken
    assert (fire.fence, fire.wake_at is None or not is_taken) == (1, True)
    assert fire.finished_at is not None or not is_taken


@pytest.mark.parametrize("sent", [{"seq_epoch": 2, "seq": 5}, {"seq_epoch": 1, "seq": 9}, {"confirmed": True}])
def test_what_a_plain_celery_task_was_sent_is_left_since_it_may_have_run(job: Job, sent: dict[str, Any]) -> None:
    ShardProgress.objects.filter(shard_id=job.shard_id).update(seq_epoch=2, seq=5)
    fire = add_fire(job, **sent)
    unsent = add_fire(job, DAY + timedelta(hours=1), seq_epoch=2, seq=6)
    assert paused(job).skipped == 1
    assert {f.pk: f.state for f in Fire.objects.all()} == {fire.pk: "claimed", unsent.pk: "skipped"}


def test_what_was_sent_and_not_acquired_is_skipped_where_workers_do_acquire(job: Job) -> None:
    add_fire(job, DAY - timedelta(hours=1), state="succeeded")
    fire = add_fire(job, confirmed=True)
    assert paused(job).skipped == 1
    fire.refresh_from_db()
    assert (fire.state, fire.reason) == ("skipped", "paused")


@pytest.mark.parametrize("origin", ["manual:7", "backfill:7"])
def test_what_a_person_asked_for_is_left(job: Job, origin: str) -> None:
    fire = add_fire(job, state="retry_wait", origin=origin)
    assert paused(job).skipped == 0
    fire.refresh_from_db()
    assert fire.state == "retry_wait"


def test_the_fires_of_other_jobs_are_left(job: Job) -> None:
    other = Job.objects.cron("t", "0 * * * *", name="other")
    Job.objects.filter(pk=other.pk).update(shard_id=job.shard_id)
    fire = add_fire(other)
    paused(job)
    fire.refresh_from_db()
    assert fire.state == "claimed"


def test_several_jobs_and_a_query_set_are_paused_at_once_and_deleted_ones_passed_over(job: Job) -> None:
    other, gone = (Job.objects.cron("t", "0 * * * *", name=name) for name in ("other", "gone"))
    for one in (job, other, gone):
        add_fire(one, state="succeeded")
        add_fire(one, DAY + timedelta(hours=1))
    gone.delete()
    jobs = Job.objects.filter(name__in=["report", "gone", "other"]).select_related("tenant").order_by("name")

    assert pause(jobs, reason="x", by="y") == Paused(jobs=2, skipped=2)
    assert set(Job.objects.filter(paused_at=None).values_list("name", flat=True)) == {"gone"}


def test_a_slice_of_a_query_set_is_those_jobs() -> None:
    for name in ("a", "b", "c"):
        Job.objects.cron("t", "0 * * * *", name=name)
    assert pause(Job.objects.order_by("name")[1:], reason="x", by="y").jobs == 2
    assert Job.objects.get(paused_at=None).name == "a"


def test_no_jobs_are_nothing_to_do() -> None:
    assert pause([], reason="x", by="y") == Paused(0, 0)


def test_a_job_that_is_paused_stays_paused_since_when_it_was_and_the_rest_is_said_anew(
    job: Job, set_time: SetTime
) -> None:
    paused(job, until=NOON + timedelta(hours=1), catch_up="all")
    set_time(NOON + timedelta(minutes=5))
    assert paused(job, reason="longer", by="ben").jobs == 1

    job.refresh_from_db()
    assert (job.paused_at, job.paused_until, job.catch_up) == (NOON, None, "none")
    assert (job.pause_reason, job.paused_by) == ("longer", "ben")


def test_what_it_skips_is_no_run_of_max_runs(job: Job) -> None:
    Job.objects.update(fired=5)
    for minute in range(3):
        add_fire(job, DAY + timedelta(minutes=minute))
    paused(job)
    assert Job.objects.get().fired == 2


def test_the_schedule_goes_on(job: Job) -> None:
    before = Job.objects.values("next_scheduled_for", "next_fire_at", "schedule_version").get()
    paused(job)
    assert Job.objects.values("next_scheduled_for", "next_fire_at", "schedule_version").get() == before


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"reason": ""}, "reason '': is needed"),
        ({"reason": " \n"}, "is needed"),
        ({"reason": None}, "reason None"),
        ({"reason": "x" * 501}, "longer than 500"),
        ({"reason": "a\x00"}, "NUL"),
        ({"by": ""}, "by '': is needed"),
        ({"by": "x" * 201}, "longer than 200"),
        ({"until": datetime(2026, 3, 3)}, "until .*has no time zone"),  # noqa: DTZ001
        ({"until": "tomorrow"}, "until 'tomorrow': is not a datetime"),
        ({"until": NOON}, "until '2026-03-02T12:00:00.00:00': is not in the future: it is 2026-03-02T12"),
        ({"catch_up": "some"}, "catch_up 'some': is not one of none, latest, all"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_cannot_be_is_refused_and_pauses_nothing(job: Job, values: dict[str, Any], words: str) -> None:
    add_fire(job)
    with pytest.raises(InvalidField, match=words):
        paused(job, **values)
    assert Job.objects.get().paused_at is None
    assert Fire.objects.get().state == "claimed"
