"""What the end of a pause brings back, by each choice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduling.core.errors import InvalidField
from scheduling.models import Fire, Job, JobClock
from scheduling.services.pause import pause
from scheduling.services.resume import Resumed, resume
from tests.ledger_rows import add_fire
from tests.services.conftest import SetTime
from tests.store.backends import database_now

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
FAR = NOON + timedelta(days=365)


@pytest.fixture
def job(set_time: SetTime) -> Job:
    set_time(NOON)
    return ahead(Job.objects.every("t", MINUTE, name="poll"))


def ahead(job: Job) -> Job:
    """Its claims have seen everything up to next year."""
    Job.objects.filter(pk=job.pk).update(next_scheduled_for=FAR, next_fire_at=FAR)
    return job


def missed(job: Job, *minutes: int) -> None:
    """Occurrences that a claim has recorded as paused."""
    for minute in minutes:
        at = NOON + MINUTE * minute
        add_fire(job, at, state="skipped", reason="paused", finished_at=database_now())


def back() -> list[int]:
    """The minutes of what came back."""
    fires = Fire.objects.filter(state="retry_wait", reason="resumed").order_by("scheduled_for")
    return [(fire.scheduled_for - NOON) // MINUTE for fire in fires]


def resumed(job: Job, **values: Any) -> Resumed:
    return resume([job], **{"by": "anna", **values})


@pytest.mark.parametrize(("catch_up", "expected"), [("none", []), ("latest", [3]), ("all", [0, 1, 2, 3])])
def test_each_choice_brings_back_what_it_says(job: Job, set_time: SetTime, catch_up: str, expected: list[int]) -> None:
    add_fire(job, NOON)
    pause([job], reason="x", by="y")
    missed(job, 1, 2, 3)
    set_time(NOON + MINUTE * 10)

    assert resumed(job, catch_up=catch_up) == Resumed(jobs=1, fires=len(expected), closing=0)
    assert back() == expected
    fires = Fire.objects.filter(state="retry_wait")
    assert {(fire.fence, fire.wake_at, fire.fire_at, fire.finished_at) for fire in fires} <= {
        (2, NOON + MINUTE * 10, NOON + MINUTE * 10, None)
    }


def test_a_resumed_job_is_not_paused_any_more(job: Job) -> None:
    pause([job], reason="x", by="y", until=FAR, catch_up="all")
    resumed(job)
    job.refresh_from_db()
    assert (job.paused_at, job.paused_until, job.paused_by, job.pause_reason) == (None, None, "", "")
    assert (job.catch_up, job.next_scheduled_for) == ("none", FAR)


def test_nothing_is_brought_back_unless_it_is_asked_for(job: Job, set_time: SetTime) -> None:
    pause([job], reason="x", by="y", until=FAR, catch_up="all")  # that is for a pause that ends by itself
    missed(job, 1)
    set_time(NOON + MINUTE * 2)
    assert resumed(job).fires == 0


def test_resuming_twice_brings_nothing_back_twice(job: Job) -> None:
    pause([job], reason="x", by="y")
    missed(job, 1)
    assert resumed(job, catch_up="all").fires == 1
    assert resumed(job, catch_up="all") == Resumed(0, 0, 0)
    assert Fire.objects.get().fence == 2


def test_what_an_earlier_pause_took_stays_as_that_one_left_it(job: Job) -> None:
    JobClock.objects.update(job_origin=NOON + MINUTE * 10, real_origin=database_now(), speed=60)  # it runs
    for stopped, recorded, catch_up in ((1, 2, "none"), (3, 4, "all")):
        add_fire(job, NOON + MINUTE * stopped)
        pause([job], reason="x", by="y")
        missed(job, recorded)
        resumed(job, catch_up=catch_up)
    assert back() == [3, 4]


def test_a_pause_that_is_paused_again_is_one_pause(job: Job, set_time: SetTime) -> None:
    pause([job], reason="x", by="y", until=NOON + MINUTE * 2)
    missed(job, 1)
    set_time(NOON + MINUTE * 3)  # its time has come, and no node has ended it
    pause([job], reason="again", by="y")
    missed(job, 4)
    set_time(NOON + MINUTE * 5)
    assert resumed(job, catch_up="all").fires == 2


def test_what_claims_have_yet_to_record_is_brought_back_by_the_owner(job: Job, set_time: SetTime) -> None:
    pause([job], reason="x", by="y")
    Job.objects.update(next_scheduled_for=NOON + MINUTE, next_fire_at=NOON + MINUTE)
    set_time(NOON + MINUTE * 2)

    assert resumed(job, catch_up="latest") == Resumed(jobs=1, fires=0, closing=1)
    job.refresh_from_db()
    assert (job.paused_until, job.catch_up) == (NOON + MINUTE * 2, "latest")


def test_jobs_that_are_not_paused_and_deleted_ones_are_passed_over(job: Job) -> None:
    add_fire(job, state="succeeded")
    pause([job], reason="x", by="y")
    other = Job.objects.every("t", MINUTE, name="other")
    job.delete()
    assert resume([job, other], by="anna", catch_up="all") == Resumed(0, 0, 0)


def test_what_a_pause_held_goes_on(job: Job) -> None:
    retry = add_fire(job, state="retry_wait", attempt=1)
    pause([job], reason="x", by="y")
    resumed(job)
    retry.refresh_from_db()
    assert (retry.state, retry.attempt, retry.fence) == ("retry_wait", 1, 1)


@pytest.mark.parametrize(
    ("values", "words"), [({"by": " "}, "by ' ': is needed"), ({"catch_up": "one"}, "is not one of none, latest, all")]
)
def test_what_cannot_be_is_refused(job: Job, values: dict[str, Any], words: str) -> None:
    pause([job], reason="x", by="y")
    with pytest.raises(InvalidField, match=words):
        resumed(job, **values)
    assert Job.objects.get().paused_at is not None
