"""Backfills: what is counted, what is made, when it is to go out, and where the bounds are."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from scheduling.core.errors import InvalidField
from scheduling.models import Calendar, Fire, Job, JobClock
from scheduling.services.backfill import MOST, BackfillOverlap, backfill, plan_backfill
from scheduling.services.pause import pause
from tests.ledger_rows import add_fire
from tests.services.conftest import SetTime

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TEN = datetime(2026, 3, 9, 10, tzinfo=UTC)


@pytest.fixture
def job(set_time: SetTime) -> Job:
    set_time(NOW)
    return Job.objects.cron("t", "0 * * * *", name="report", expires_after=timedelta(minutes=5))


def backfilled(job: Job, *, hours: int = 4, **values: Any) -> list[Fire]:
    done = backfill(job, **{"start": TEN, "until": TEN + HOUR * hours, "by": "anna", **values})
    fires = list(Fire.objects.filter(origin=done.origin).order_by("scheduled_for"))
    assert done.made == len(fires)
    return fires


def test_both_ends_are_included(job: Job) -> None:
    plan = plan_backfill(job, start=TEN, until=TEN + HOUR * 2)
    assert plan.occurrences == (TEN, TEN + HOUR, TEN + HOUR * 2)
    assert (plan.count, plan.excluded) == (3, 0)
    assert plan_backfill(job, start=TEN + HOUR / 2, until=TEN + HOUR * 3 / 4).count == 0
    assert not Fire.objects.exists()


def test_what_is_not_due_yet_is_left_to_the_schedule(job: Job) -> None:
    plan = plan_backfill(job, start=NOW - HOUR, until=NOW + HOUR * 9)
    assert (plan.occurrences, plan.until) == ((NOW - HOUR, NOW), NOW)


def test_what_the_calendar_excludes_is_left_out_and_told(job: Job) -> None:
    job.calendar = Calendar.objects.create(name="closed", days=[date(2026, 3, 9)])
    job.save()
    assert len(backfilled(job, until=datetime(2026, 3, 10, 1, tzinfo=UTC))) == 2
    plan = plan_backfill(job, start=TEN, until=datetime(2026, 3, 10, 1, tzinfo=UTC))
    assert (plan.count, plan.excluded) == (2, 14)


def test_each_occurrence_gets_a_fire_beside_the_schedules_own(job: Job) -> None:
    add_fire(job, TEN, state="succeeded")
    fires = backfilled(job, hours=2, request="r1")

    assert [fire.scheduled_for for fire in fires] == [TEN, TEN + HOUR, TEN + HOUR * 2]
    assert {(f.state, f.reason, f.fence, f.attempt, f.origin) for f in fires} == {
        ("retry_wait", "backfill", 1, 0, "backfill:r1")
    }
    assert {f.schedule_version for f in fires} == {job.schedule_version}
    assert Fire.objects.count() == 4


def test_the_schedule_does_not_move(job: Job) -> None:
    before: dict[str, Any] = dict(Job.objects.values().get())
    backfilled(job)
    assert Job.objects.values().get() == before


def test_they_go_out_in_order_so_many_a_second_and_expire_from_then_on(job: Job) -> None:
    fires = backfilled(job, hours=3, rate_per_s=4)
    assert [fire.wake_at for fire in fires] == [NOW + timedelta(seconds=s / 4) for s in range(4)]
    assert [fire.fire_at for fire in fires] == [fire.wake_at for fire in fires]


def test_the_rate_is_of_real_time(job: Job) -> None:
    JobClock.objects.update(speed=60)
    fires = backfilled(job, hours=1, rate_per_s=4)
    assert fires[1].wake_at is not None
    assert fires[1].wake_at - NOW == timedelta(seconds=15)


def test_one_at_a_time_is_the_rule_and_overlap_is_asked_for(job: Job) -> None:
    assert {fire.exclusive for fire in backfilled(job)} == {True}
    assert {fire.exclusive for fire in backfilled(job, overlap=BackfillOverlap.ALLOW)} == {False}


def test_a_job_whose_runs_may_not_overlap_is_not_made_to(job: Job) -> None:
    Job.objects.update(overlap="buffer_one")
    with pytest.raises(
        InvalidField, match="overlap 'allow': runs of this job may not overlap: its policy is buffer_one"
    ):
        backfilled(job, overlap="allow")
    assert len(backfilled(job)) == 5


def test_the_same_request_makes_nothing_twice(job: Job) -> None:
    backfilled(job, request="r1")
    again = backfill(job, start=TEN, until=TEN + HOUR * 4, by="anna", request="r1")
    assert (again.made, again.plan.count) == (0, 5)


def test_nothing_to_do_makes_nothing(job: Job) -> None:
    assert backfilled(job, start=TEN + timedelta(minutes=1), until=TEN + timedelta(minutes=2)) == []


def test_a_paused_job_is_backfilled(job: Job) -> None:
    pause([job], reason="x", by="y")
    assert len(backfilled(job)) == 5


def test_a_deleted_job_is_refused(job: Job) -> None:
    add_fire(job, state="succeeded")
    job.delete()
    with pytest.raises(InvalidField, match=r"^job 'report': was deleted"):
        backfilled(job)


def test_bounds_keep_a_slip_of_the_hand_from_making_a_million(job: Job) -> None:
    second = Job.objects.every("t", timedelta(seconds=1), anchor=TEN, name="each second")
    assert plan_backfill(second, start=TEN, until=TEN + timedelta(seconds=MOST - 1)).count == MOST
    with pytest.raises(InvalidField, match=r"makes 10,001 occurrences, more than 10,000"):
        plan_backfill(second, start=TEN, until=TEN + timedelta(seconds=MOST))
    with pytest.raises(InvalidField, match="is more than 366 days after the start"):
        plan_backfill(job, start=datetime(1, 1, 2, tzinfo=UTC), until=NOW)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"start": datetime(2026, 3, 9)}, "start .*has no time zone"),  # noqa: DTZ001
        ({"until": datetime(2026, 3, 9)}, "until .*has no time zone"),  # noqa: DTZ001
        ({"until": TEN - HOUR}, "until .*is before the start"),
        ({"start": NOW + HOUR}, "start .*is in the future"),
        ({"by": ""}, "by ''"),
        ({"request": ""}, "request ''"),
        ({"overlap": "some"}, "overlap 'some': is not one of one_at_a_time, allow"),
        ({"rate_per_s": 0}, "rate_per_s 0: is not a number from 0.001 to 10"),
        ({"rate_per_s": 11}, "one_at_a_time"),
        ({"rate_per_s": float("nan")}, "rate_per_s nan"),
        ({"rate_per_s": 1001, "overlap": "allow"}, "to 1000"),
        ({"rate_per_s": True}, "rate_per_s True"),
        ({"rate_per_s": "fast"}, "rate_per_s 'fast'"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_cannot_be_is_refused_and_makes_nothing(job: Job, values: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidField, match=words):
        backfilled(job, **values)
    assert not Fire.objects.exists()
