"""Two edits round one occurrence: what the first took away before its time does not run, whatever the second does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from scheduling.core.fire import CatchUp
from scheduling.models import Job, WorkerTask
from scheduling.services.pause import pause
from scheduling.services.resume import resume
from scheduling.store.bucketed import BucketedStore
from scheduling.store.postgres import PostgresStore
from tests.store.backends import database_now
from tests.store.owner import Owner, acquire, fire_at, rows
from tests.store.test_edits import NINE, at, by_update, daily

AHEAD = timedelta(seconds=0.6)


@pytest.fixture(params=[PostgresStore, BucketedStore])
def owner(request: pytest.FixtureRequest, committed_db: None) -> Iterator[Owner]:
    owner = Owner(at("08:00"), make=request.param)
    yield owner
    owner.store.close()


@pytest.fixture
def job(owner: Owner) -> Job:
    """Due at nine, and claimed shortly before."""
    job = owner.keeps(daily())
    WorkerTask.objects.create(name=job.task, is_guarded=True, seen_at=database_now())
    owner.look(NINE - AHEAD, ahead_s=1)
    assert rows(job) == ["09:00:00 claimed"]
    return job


def test_what_an_edit_took_away_before_its_time_is_superseded_as_soon_as_it_is_planned_anew(
    owner: Owner, job: Job
) -> None:
    owner.at(NINE - AHEAD / 2)
    by_update(job, "0 10 * * *")
    owner.look(NINE - AHEAD / 3, ahead_s=1)
    assert rows(job) == ["09:00:00 skipped superseded"]
    owner.at(NINE + AHEAD)
    by_update(job, "0 11 * * *")
    assert acquire(fire_at(job, NINE)) == "done"


def test_so_it_is_where_both_edits_were_made_before_anything_was_planned_anew(owner: Owner, job: Job) -> None:
    owner.at(NINE - AHEAD / 2)
    by_update(job, "0 10 * * *")
    owner.at(NINE + AHEAD / 2)
    by_update(job, "0 11 * * *")
    owner.look(NINE + AHEAD, ahead_s=1)
    assert rows(job) == ["09:00:00 skipped superseded"]


def test_what_the_new_schedule_has_too_is_claimed_by_it(owner: Owner, job: Job) -> None:
    owner.at(NINE - AHEAD / 2)
    by_update(job, "0 9,10 * * *")
    owner.look(NINE - AHEAD / 3, ahead_s=1)
    assert rows(job) == ["09:00:00 claimed"]
    assert acquire(fire_at(job, NINE), fence=2) == "runs"


def test_an_edit_behind_the_occurrence_takes_nothing_back(owner: Owner, job: Job) -> None:
    owner.at(NINE + AHEAD)
    by_update(job, "0 10 * * *")
    owner.look(NINE + AHEAD, ahead_s=1)
    assert rows(job) == ["09:00:00 claimed"]
    assert acquire(fire_at(job, NINE)) == "runs"


def test_what_a_plain_celery_task_was_sent_stays_sent(owner: Owner, job: Job) -> None:
    WorkerTask.objects.update(is_guarded=False)
    owner.at(NINE - AHEAD / 2)
    by_update(job, "0 10 * * *")
    owner.look(NINE - AHEAD / 3, ahead_s=1)
    assert rows(job) == ["09:00:00 claimed"]


def test_what_a_pause_took_and_an_edit_took_away_does_not_come_back_with_its_end(owner: Owner, job: Job) -> None:
    owner.at(NINE - AHEAD / 2)
    pause([job], reason="because", by="anna")
    assert rows(job) == ["09:00:00 skipped paused"]
    by_update(job, "0 10 * * *")
    owner.look(NINE - AHEAD / 3, ahead_s=1)
    owner.at(NINE + AHEAD)
    by_update(job, "0 11 * * *")
    owner.look(NINE + AHEAD)
    resume([job], catch_up=CatchUp.ALL, by="anna")
    assert rows(job) == ["09:00:00 skipped superseded"]
