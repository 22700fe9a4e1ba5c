"""Edits against Postgres, by every way to edit: what becomes of occurrences round the instant of the edit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from scheduling.core.effects import ReadDue
from scheduling.core.fire import CatchUp
from scheduling.core.jitter import jittered
from scheduling.models import Entry, Fire, Job
from scheduling.services.pause import pause
from scheduling.services.resume import resume
from scheduling.store.bucketed import BucketedStore
from scheduling.store.connection import connector
from scheduling.store.polling import PollingStore
from scheduling.store.postgres import PostgresStore
from tests.store.owner import Owner, acquire, fire_at, next_of, rows, with_id

DAY = datetime(2026, 3, 2, tzinfo=UTC)
TEN_MINUTES = timedelta(minutes=10)
NINE = DAY + timedelta(hours=9)
# jitter makes this job's 09:00 a fire at some second of 09:07
AT_SEVEN_PAST = next(
    job for n in count(1)
    if jittered(job := UUID(int=n << 64 | 8 << 76), NINE, TEN_MINUTES, None).minute == 7
)  # fmt: skip

Edit = Callable[[Job, str], None]


def by_save(job: Job, cron: str) -> None:
    job.cron = cron
    job.save()


def by_update(job: Job, cron: str) -> None:
    Job.objects.filter(pk=job.pk).update(cron=cron)


def by_sql(job: Job, cron: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_job SET cron = %s WHERE id = %s", [cron, job.pk])


EVERY_WAY = pytest.mark.parametrize("edit", [by_save, by_update, by_sql])


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-02 {text}").replace(tzinfo=UTC)


@pytest.fixture(params=[PostgresStore, BucketedStore])
def owner(request: pytest.FixtureRequest, committed_db: None) -> Iterator[Owner]:
    owner = Owner(at("08:00"), make=request.param)
    yield owner
    owner.store.close()


def daily(cron: str = "0 9 * * *", **options: Any) -> Job:
    return Job.objects.cron("tests.none", cron, name="daily", **options)


@EVERY_WAY
def test_a_nine_that_fires_at_seven_past_and_is_edited_at_five_past_still_fires(edit: Edit, owner: Owner) -> None:
    job = owner.keeps(with_id(daily(jitter=TEN_MINUTES), AT_SEVEN_PAST))
    owner.look(at("09:05"))
    assert rows(job) == []

    edit(job, "0 9,10 * * *")
    owner.look(at("09:05"))

    assert rows(job) == ["09:00:00 retry_wait"]
    assert next_of(job) == "2026-03-02 10:00:00"
    assert owner.waiting(at("09:06")) == []
    (fire,) = owner.waiting(at("09:08"))
    assert fire.fire_at == jittered(job.pk, NINE, TEN_MINUTES, None)


@EVERY_WAY
def test_a_nine_that_the_new_schedule_has_not_is_recorded_as_superseded(edit: Edit, owner: Owner) -> None:
    job = owner.keeps(with_id(daily(jitter=TEN_MINUTES), AT_SEVEN_PAST))
    owner.at(at("09:05"))
    edit(job, "30 9 * * *")
    owner.look(at("09:05"))

    assert rows(job) == ["09:00:00 skipped superseded"]
    assert next_of(job) == "2026-03-02 09:30:00"


def test_at_stop_2_what_an_edit_kept_is_not_published_before_its_time(owner: Owner) -> None:
    job = with_id(daily(jitter=TEN_MINUTES), AT_SEVEN_PAST)
    poller = PollingStore(
        connector(connection.get_connection_params(), name="poller"), shards=64, grace=timedelta(0), confirm_s=30
    )
    owner.at(at("09:05"))
    by_save(job, "0 9,10 * * *")
    assert poller.poll(owner.clock, limit=10) == []
    owner.at(at("09:08"))
    assert [fire.scheduled_for for fire in poller.poll(owner.clock, limit=10)] == [NINE]
    poller.close()


@EVERY_WAY
def test_an_edit_creates_nothing_before_itself(edit: Edit, owner: Owner) -> None:
    job = owner.keeps(daily())
    owner.look(at("09:00"))
    owner.at(at("10:00"))
    edit(job, "0,30,59 8,9 * * *")
    owner.look(at("10:00"))

    assert rows(job) == ["09:00:00 claimed"]
    assert next_of(job) == "2026-03-03 08:00:00"


def test_two_edits_before_the_planner_looked_lose_nothing(owner: Owner) -> None:
    job = owner.keeps(daily(misfire="all"))
    owner.at(at("09:05"))
    by_sql(job, "6,7 9 * * *")
    owner.at(at("09:10"))
    by_update(job, "0,7,30 9 * * *")
    owner.look(at("09:10"))

    assert rows(job) == ["09:00:00 claimed", "09:06:00 skipped superseded", "09:07:00 claimed"]
    assert next_of(job) == "2026-03-02 09:30:00"
    assert Job.objects.get().superseded == []


def test_a_description_or_a_policy_is_no_edit_of_the_schedule(owner: Owner) -> None:
    job = owner.keeps(daily())
    job.description, job.misfire, job.max_attempts = "new", "all", 9
    job.save()
    job.refresh_from_db()
    assert (job.schedule_version, next_of(job)) == (1, "2026-03-02 09:00:00")


def test_what_was_claimed_ahead_is_refused_once_the_schedule_has_it_no_more(owner: Owner) -> None:
    job = owner.keeps(daily())
    owner.look(NINE - timedelta(seconds=0.6), ahead_s=1)
    owner.at(NINE - timedelta(seconds=0.3))
    by_save(job, "0 10 * * *")
    owner.look(NINE)

    assert rows(job) == ["09:00:00 claimed"]  # in the wheel, or in a queue
    assert acquire(fire_at(job, NINE)) == "superseded"
    assert rows(job) == ["09:00:00 skipped superseded"]
    assert next_of(job) == "2026-03-02 10:00:00"


def test_what_was_claimed_ahead_and_the_new_schedule_has_too_runs_once_under_a_higher_fence(owner: Owner) -> None:
    job = owner.keeps(daily())
    owner.look(NINE - timedelta(seconds=0.6), ahead_s=1)
    owner.at(NINE - timedelta(seconds=0.3))
    by_save(job, "0 9,10 * * *")
    owner.look(NINE)

    fire = fire_at(job, NINE)
    assert (fire.state, fire.fence, fire.schedule_version) == ("claimed", 2, 2)
    assert acquire(fire, fence=1) == "stale_fence"
    assert acquire(fire) == "runs"


def test_what_a_worker_refused_is_revived_by_an_edit_that_brings_it_back(owner: Owner) -> None:
    job = owner.keeps(daily())
    owner.look(NINE - timedelta(seconds=0.6), ahead_s=1)
    owner.at(NINE - timedelta(seconds=0.4))
    by_save(job, "0 10 * * *")
    assert acquire(fire_at(job, NINE)) == "superseded"
    owner.at(NINE - timedelta(seconds=0.2))
    by_save(job, "0 9 * * *")
    owner.look(NINE)

    assert rows(job) == ["09:00:00 claimed"]
    assert acquire(fire_at(job, NINE)) == "runs"


def test_a_schedule_that_sql_broke_is_put_aside_and_taken_up_by_the_edit_that_mends_it(owner: Owner) -> None:
    job = owner.keeps(daily())
    by_sql(job, "61 * * * *")
    owner.look(at("08:30"))
    assert Job.objects.get().problem.startswith("cron '61 * * * *'")
    by_sql(job, "62 * * * *")
    by_sql(job, "0 9 * * *")
    owner.look(at("08:40"))
    assert (Job.objects.get().problem, next_of(job)) == ("", "2026-03-02 09:00:00")


@pytest.mark.parametrize("edit", [by_update, by_sql])  # save() refuses it
def test_an_edit_to_an_impossible_schedule_leaves_no_occurrence_without_a_row(edit: Edit, owner: Owner) -> None:
    job = owner.keeps(daily("0,5,30 9 * * *"))
    owner.at(at("09:10"))
    edit(job, "61 * * * *")
    owner.look(at("09:10"))

    assert rows(job) == ["09:00:00 skipped superseded", "09:05:00 skipped superseded"]
    aside = Job.objects.get()
    assert aside.problem.startswith("cron '61 * * * *'")
    assert (next_of(job), aside.superseded, aside.in_bucket) == (None, [], False)
    assert not Entry.objects.exists()

    owner.at(at("09:20"))
    edit(job, "0,15,30 9 * * *")
    owner.look(at("09:20"))
    assert rows(job) == ["09:00:00 skipped superseded", "09:05:00 skipped superseded"]
    assert next_of(job) == "2026-03-02 09:30:00"


# -- max_runs -------------------------------------------------------------------------------------------------------


def test_a_job_ends_exactly_with_its_last_run(owner: Owner) -> None:
    job = owner.keeps(daily("* * * * *", max_runs=3))
    owner.look(at("08:02"))
    assert (Job.objects.get().fired, next_of(job)) == (2, "2026-03-02 08:03:00")
    owner.look(at("08:04"), ahead_s=120)
    assert rows(job) == ["08:01:00 claimed", "08:02:00 claimed", "08:03:00 claimed"]
    assert (Job.objects.get().next_fire_at, Job.objects.get().fired) == (None, 3)


def test_an_edit_within_the_window_does_not_count_a_run_twice(owner: Owner) -> None:
    job = owner.keeps(daily("0 9,10 * * *", max_runs=2))
    owner.look(NINE - timedelta(seconds=0.6), ahead_s=1)
    owner.at(NINE - timedelta(seconds=0.3))
    by_save(job, "0 9,10,11 * * *")
    owner.look(NINE)
    assert (Job.objects.get().fired, next_of(job)) == (1, "2026-03-02 10:00:00")
    owner.look(at("10:00"))
    assert next_of(job) is None
    assert acquire(fire_at(job, NINE)) == acquire(fire_at(job, at("10:00"))) == "runs"


def test_what_the_end_of_a_pause_brought_back_is_taken_over_by_an_edit_that_has_it_too_and_counted_once(
    owner: Owner,
) -> None:
    job = owner.keeps(daily("0 9,10 * * *", max_runs=2))
    owner.look(NINE - timedelta(seconds=0.6), ahead_s=1)
    pause([job], reason="a release", by="anna")
    resume([job], catch_up=CatchUp.ALL, by="anna")
    assert rows(job) == ["09:00:00 retry_wait resumed"]
    owner.at(NINE - timedelta(seconds=0.3))
    by_save(job, "0 9,10,11 * * *")
    owner.look(NINE)
    assert (rows(job), Job.objects.get().fired) == (["09:00:00 claimed"], 1)
    assert acquire(fire_at(job, NINE)) == "runs"


def test_a_run_that_an_edit_took_back_is_not_counted(owner: Owner) -> None:
    job = owner.keeps(daily(max_runs=1))
    owner.look(NINE - timedelta(seconds=0.6), ahead_s=1)
    assert next_of(job) is None
    owner.at(NINE - timedelta(seconds=0.3))
    by_update(job, "0 10 * * *")
    owner.look(NINE)
    assert (Job.objects.get().fired, next_of(job)) == (0, "2026-03-02 10:00:00")


def test_a_finished_job_goes_on_when_it_may_run_more_often(owner: Owner) -> None:
    job = owner.keeps(daily(max_runs=1))
    owner.look(NINE)
    assert next_of(job) is None
    owner.at(at("12:00"))
    Job.objects.update(max_runs=2)
    owner.look(at("12:00"))
    assert (rows(job), next_of(job)) == (["09:00:00 claimed"], "2026-03-03 09:00:00")


def test_what_a_pause_takes_does_not_end_a_job(owner: Owner) -> None:
    job = owner.keeps(daily("* * * * *", max_runs=1))
    plans = owner.store.due(ReadDue(frozenset(range(64)), at("08:01"), 1)).jobs
    assert plans[0].job.paused_until is None
    Job.objects.update(paused_at=at("08:00"))
    owner.look(at("08:01"))
    assert (rows(job), next_of(job)) == (["08:01:00 skipped paused"], "2026-03-02 08:02:00")
    Job.objects.update(paused_until=at("08:03"))
    owner.look(at("08:03"))
    assert Fire.objects.filter(state="claimed").count() == 1
    assert next_of(job) is None
