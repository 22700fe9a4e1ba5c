"""Claims of the bucketed store: what goes the shortest way, and what must not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from scheduling.models import Entry, Fire, Job
from scheduling.store import bucket_reader
from scheduling.store.bucketed import BucketedStore
from tests.fires import make_fire
from tests.store.owner import Owner, next_of, rows

TASK = "tests.none"
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def owner(committed_db: None) -> Iterator[Owner]:
    owner = Owner(NOON - MINUTE * 2, make=BucketedStore)
    yield owner
    owner.store.close()


@pytest.fixture
def job(owner: Owner) -> Job:
    """Each minute; 11:59 and noon are claimed, 12:01 is an entry, and the owner has the job in its memory."""
    job = Job.objects.every(TASK, MINUTE, anchor=NOON - MINUTE)
    owner.look(NOON - MINUTE)
    owner.look(NOON)
    return job


@pytest.mark.parametrize(
    ("what", "expected"),
    [({"misfire": "skip"}, "12:01:00 skipped missed"), ({"kwargs": {"n": 2}}, "12:01:00 claimed")],
)
def test_what_is_late_is_judged_and_sent_as_its_job_is_now_not_as_it_was_remembered(
    what: dict[str, Any], expected: str, owner: Owner, job: Job
) -> None:
    Job.objects.update(**what)
    owner.look(NOON + MINUTE * 1.7)
    assert len(rows(job)) == 2
    (plan,) = owner.look(NOON + MINUTE * 1.7)
    assert rows(job)[2:] == [expected]
    assert plan.due.work.kwargs == ('{"n": 2}' if "kwargs" in what else "{}")


def test_a_row_that_an_older_schedule_left_is_taken_over_and_the_others_are_claimed_all_the_same(
    owner: Owner, job: Job
) -> None:
    other = Job.objects.every(TASK, MINUTE, anchor=NOON)
    make_fire(job, NOON + MINUTE, state="skipped", reason="superseded", schedule_version=0)
    owner.look(NOON + MINUTE)  # what is remembered is read anew
    owner.look(NOON + MINUTE)
    assert rows(job)[2:] == ["12:01:00 claimed"]
    assert Fire.objects.get(job=job, scheduled_for=NOON + MINUTE).fence == 2
    assert rows(other) == ["12:01:00 claimed"]
    assert owner.look(NOON + MINUTE) == []
    owner.look(NOON + MINUTE * 2)
    assert rows(job)[3:] == rows(other)[1:] == ["12:02:00 claimed"]


def test_a_day_that_another_node_dropped_is_made_again(owner: Owner, job: Job) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE scheduling_fire_30_20260302, scheduling_jobrun_30_20260302")
    owner.look(NOON + MINUTE)
    assert rows(job) == ["12:01:00 claimed"]


def test_what_an_entry_counts_is_counted_when_a_last_run_is_set(owner: Owner, job: Job) -> None:
    owner.look(NOON + MINUTE)
    Job.objects.update(max_runs=5)
    owner.look(NOON + MINUTE)
    assert Job.objects.get().fired == 3
    owner.look(NOON + MINUTE * 9)
    assert Fire.objects.count() - Fire.objects.filter(state="skipped").count() == 5


def test_entries_of_jobs_that_sql_deleted_go_and_the_next_ones_are_seen(owner: Owner, job: Job) -> None:
    for _ in range(3):
        Job.objects.every(TASK, MINUTE, anchor=NOON - MINUTE)
    owner.look(NOON + MINUTE)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM scheduling_job WHERE id <> %s", [job.pk])
    owner.look(NOON + MINUTE * 2)  # those that are remembered are found out by the claim
    owner.look(NOON + MINUTE * 2)
    owner.promote()
    assert Entry.objects.values_list("job_id").get() == (job.pk,)
    assert rows(job)[-1] == "12:02:00 claimed"


def test_the_last_occurrence_of_a_schedule_leaves_neither_an_entry_nor_a_job_that_waits_for_one(owner: Owner) -> None:
    job = Job.objects.every(TASK, MINUTE, anchor=NOON - MINUTE, end_at=NOON + MINUTE)
    for minute in (-1, 0, 1, 2):
        owner.look(NOON + MINUTE * minute)
    assert rows(job) == ["11:59:00 claimed", "12:00:00 claimed", "12:01:00 claimed"]
    assert (next_of(job), Entry.objects.count()) == (None, 0)
    assert Job.objects.values_list("in_bucket", "fired").get() == (False, 3)


def test_jobs_that_there_is_no_room_to_remember_are_claimed_like_the_others(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_reader, "KEPT_JOBS", 30)
    for _ in range(40):
        Job.objects.every(TASK, MINUTE, anchor=NOON - MINUTE)
    assert [len(owner.look(NOON + MINUTE * minute)) for minute in range(-1, 6)] == [40] * 7


def test_of_more_jobs_than_can_be_remembered_most_are_found_so_when_they_come_round(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_reader, "KEPT_JOBS", 20)
    for second in range(24):
        Job.objects.every(TASK, MINUTE, anchor=NOON - MINUTE + timedelta(seconds=second))
    looks = [owner.look(NOON + timedelta(seconds=second)) for second in range(-60, 300)]
    plans = [plan.due for plans in looks[120:] for plan in plans]
    assert len(plans) == 24 * 4
    assert sum(due.is_kept for due in plans) > 24 * 4 / 2
