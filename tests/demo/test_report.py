"""The demo's count: it finds what is lost, what is doubled, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from project.demo import report
from project.demo.models import Effect
from project.demo.report import Row, Span, unaccounted
from scheduling.core.latency import LatencyHistogram
from scheduling.core.recurrence import occurrences
from scheduling.models import Fire, Job, JobClock, Node, ShardProgress
from tests.ledger_rows import DAY, add_fire, add_run

END = DAY + timedelta(hours=2)
SPAN = Span(after=DAY, until=END)


def at(minutes: float) -> datetime:
    return DAY + timedelta(minutes=minutes)


@pytest.fixture
def job(db: None) -> Job:
    """Each half hour; job time has stood at the span's begin when it was made. Four occurrences in the span."""
    JobClock.objects.create(job_origin=DAY, speed=60)
    return Job.objects.every("t", timedelta(minutes=30), anchor=DAY, name="half-hourly")


def fire_all(job: Job) -> list[Fire]:
    """What a demo without a fault leaves."""
    moments = occurrences(job.schedule, after=DAY, until=END)
    Job.objects.update(next_scheduled_for=at(150), next_fire_at=at(150))
    return [add_fire(job, moment, state="succeeded") for moment in moments]


def built() -> dict[str, Any]:
    return report.build(SPAN, broker="redis")


def test_a_span_without_a_fault_is_counted_and_nothing_is_lost(job: Job):
    for fire in fire_all(job):
        add_run(fire)
    add_fire(job, DAY, state="succeeded")  # not in the span, which is open at its begin
    add_fire(job, at(5), origin="manual:x", state="succeeded")

    found = built()
    assert {key: found[key] for key in ("jobs", "fires", "runs", "skipped", "lost", "duplicate_effects", "broker")} == {
        "jobs": 1, "fires": 4, "runs": 4, "skipped": {}, "lost": 0, "duplicate_effects": 0, "broker": "redis",
    }  # fmt: skip
    assert (found["from"], found["to"]) == ("2026-03-02T00:00:00+00:00", "2026-03-02T02:00:00+00:00")
    assert report.count_unsettled(SPAN) == 0


def test_an_occurrence_without_a_row_is_lost(job: Job):
    fire_all(job)[1].delete()

    found = built()
    assert (found["fires"], found["lost"]) == (3, 1)


def test_a_job_that_is_due_and_not_claimed_is_waited_for_and_lost(job: Job):
    assert report.count_unsettled(SPAN) == 1
    assert built()["lost"] == 4


@pytest.mark.parametrize("state", ["claimed", "parked", "running"])
def test_a_fire_that_has_not_come_to_an_end_is_lost_and_not_fired(job: Job, state: str):
    fire_all(job)[0].delete()
    add_fire(job, at(30), state=state)

    found = built()
    assert (found["fires"], found["lost"]) == (3, 1)
    assert report.count_unsettled(SPAN) == 1


def test_a_retry_whose_time_lies_behind_the_span_waits_rightly(job: Job):
    fire_all(job)[0].delete()
    add_fire(job, at(30), state="retry_wait", attempt=1, wake_at=at(121))

    assert (built()["fires"], built()["lost"]) == (4, 0)
    Fire.objects.filter(state="retry_wait").update(wake_at=END)
    assert built()["lost"] == 1


def test_a_plain_task_is_done_when_the_broker_has_its_message(job: Job):
    plain = Span(after=DAY, until=END, plain=["t"])
    fire_all(job)[0].delete()
    add_fire(job, at(30), state="claimed", seq_epoch=1, seq=5)
    ShardProgress.objects.filter(shard_id=job.shard_id).update(seq_epoch=1, seq=4)

    assert report.count_open(plain) == 1
    ShardProgress.objects.filter(shard_id=job.shard_id).update(seq=5)
    assert report.count_open(plain) == 0
    assert report.count_open(SPAN) == 1


def test_skipped_occurrences_are_counted_by_their_reason_and_are_not_lost(job: Job):
    for fire in fire_all(job)[:3]:
        fire.delete()
    add_fire(job, at(30), state="skipped", reason="missed", covers=2, covers_to=at(60))
    add_fire(job, at(90), state="skipped", reason="overlap")

    found = built()
    assert (found["fires"], found["skipped"], found["lost"]) == (1, {"missed": 2, "overlap": 1}, 0)


def test_jitter_may_push_an_occurrence_beyond_the_span(job: Job):
    fire_all(job)
    Fire.objects.filter(scheduled_for=END).delete()
    Job.objects.filter(pk=job.pk).update(jitter=timedelta(minutes=29), schedule_changed_at=DAY)
    # an edit: the trigger has set the time of the change, and the part of the span before it is not judged
    job.refresh_from_db()

    [last] = list(occurrences(job.schedule, after=at(90), until=END))
    assert last not in report.due(job, SPAN)


def test_an_edited_job_is_judged_from_its_edit_on_and_a_deleted_one_until_its_end(job: Job):
    job.schedule_changed_at = at(45)
    assert report.due(job, SPAN) == [at(60), at(90), at(120)]
    job.deleted_at = at(95)
    assert report.due(job, SPAN) == [at(60), at(90)]


def test_double_effects_are_counted(db: None):
    first, second = uuid4(), uuid4()
    for fire in (first, first, first, second):
        Effect.objects.create(fire_id=fire, job_id=uuid4(), attempt=1, fence=1)

    assert report.count_duplicate_effects() == 2


def test_the_latencies_of_the_nodes_are_merged(db: None):
    for node, seconds in (("a", 0.010), ("b", 0.020), ("new", None)):
        histogram = LatencyHistogram()
        if seconds is not None:
            histogram.record(seconds)
        values = {"latency": histogram.to_dict()} if seconds else {}
        Node.objects.create(id=node, started_at=timezone.now(), lease_until=timezone.now(), **values)

    assert report.fire_latency_ms() == {"p50": pytest.approx(10, rel=0.02), "p99": 20, "max": 20}


def test_without_a_fire_there_is_no_latency(job: Job):
    assert report.fire_latency_ms() == {"p50": None, "p99": None, "max": None}
    assert report.start_latency_ms(SPAN) == {"p50": None, "p99": None, "max": None}


def test_the_start_latency_counts_real_time_from_the_instant_that_job_time_got_there(job: Job):
    real_origin = datetime(2026, 11, 1, tzinfo=UTC)
    JobClock.objects.update(real_origin=real_origin)
    for number, fire in enumerate(fire_all(job), start=1):
        due = real_origin + timedelta(seconds=number * 30)  # speed 60: half an hour is 30 s
        started = due + timedelta(milliseconds=number * 10)
        add_run(fire, started_at=started, finished_at=started)
        add_run(
            fire,
            fence=2,
            attempt=2,
            id=uuid4(),
            started_at=due + timedelta(hours=1),
            finished_at=due + timedelta(hours=1),
        )

    assert report.start_latency_ms(SPAN) == {"p50": 20.0, "p99": 40.0, "max": 40.0}


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        ([], 4),
        ([Row(at(30), 1, None)], 3),
        ([Row(at(31), 1, None)], 4),
        ([Row(at(30), 3, at(90))], 1),
        ([Row(at(30), 2, at(90))], 2),
        ([Row(at(30), 3, at(90)), Row(at(60), 1, None)], 1),
        ([Row(at(30), 9, at(120))], 0),
    ],
)
def test_rows_account_for_their_instant_or_for_as_many_as_they_say_within_their_stretch(rows: list[Row], left: int):
    assert unaccounted([at(30), at(60), at(90), at(120)], rows) == left
