"""A manual fire: what its row says, and that one request makes one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from fairness.models import Tenant
from scheduling.core.errors import InvalidField
from scheduling.core.identity import fire_id
from scheduling.models import Fire, Job
from scheduling.services.pause import pause
from scheduling.services.run_now import run_now
from tests.ledger_rows import add_fire
from tests.services.conftest import SetTime

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
def job(set_time: SetTime) -> Job:
    set_time(NOON)
    return Job.objects.cron("t", "0 * * * *", name="report", max_attempts=7)


def test_it_waits_for_its_owner_to_run_it_now(job: Job) -> None:
    [started] = run_now([job], by="anna", request="r1")

    fire = Fire.objects.by_id(started.fire_id)
    assert (started.job_id, started.scheduled_for, started.is_new) == (job.pk, NOON, True)
    assert fire.id == fire_id(job.pk, NOON, "manual:r1")
    assert (fire.state, fire.reason, fire.fence, fire.attempt) == ("retry_wait", "run_now", 1, 0)
    assert (fire.scheduled_for, fire.fire_at, fire.wake_at) == (NOON, NOON, NOON)
    assert (fire.origin, fire.max_attempts, fire.exclusive) == ("manual:r1", 7, False)
    assert (fire.shard_id, fire.tenant_id, fire.history_days) == (job.shard_id, job.tenant_id, 30)


def test_it_never_moves_the_schedule(job: Job) -> None:
    before: dict[str, Any] = dict(Job.objects.values().get())
    run_now([job], by="anna")
    assert Job.objects.values().get() == before


def test_it_stands_beside_the_schedules_own_fire_of_the_same_instant(job: Job) -> None:
    add_fire(job, NOON)
    run_now([job], by="anna")
    assert Fire.objects.filter(scheduled_for=NOON).count() == 2


def test_one_request_runs_once_and_requests_without_a_name_each_time(job: Job, set_time: SetTime) -> None:
    request = uuid4()
    [first] = run_now([job], by="anna", request=request)
    set_time(NOON + timedelta(days=3))
    [again] = run_now([job], by="anna", request=request)
    assert (again.fire_id, again.scheduled_for, again.is_new) == (first.fire_id, NOON, False)
    run_now([job], by="anna")
    run_now([job], by="anna")
    assert Fire.objects.count() == 3


def test_of_several_jobs_each_gets_its_own_under_one_request(job: Job) -> None:
    other = Job.objects.cron("t", "0 * * * *", tenant=Tenant.objects.create(slug="short", history_days=7))
    run_now([job], by="anna", request="r1")
    started = run_now([other, job], by="anna", request="r1")
    assert {one.job_id: one.is_new for one in started} == {job.pk: False, other.pk: True}
    assert Fire.objects.get(job=other).history_days == 7


def test_a_paused_and_a_finished_job_run_all_the_same(job: Job) -> None:
    pause([job], reason="x", by="y")
    Job.objects.update(next_scheduled_for=None, next_fire_at=None)
    assert len(run_now([job], by="anna")) == 1
    assert Fire.objects.get().state == "retry_wait"


def test_where_runs_may_not_overlap_it_says_so(job: Job) -> None:
    Job.objects.update(overlap="skip")
    run_now([job], by="anna")
    assert Fire.objects.get().exclusive


@pytest.mark.parametrize("softly", [True, False])
def test_a_deleted_job_is_refused_and_so_are_those_with_it(job: Job, softly: bool) -> None:
    other = Job.objects.cron("t", "0 * * * *", name="other")
    if softly:
        add_fire(job, state="succeeded")
    key = job.pk
    job.delete()
    job.pk = key
    with pytest.raises(InvalidField, match="^job .*was deleted"):
        run_now([other, job], by="anna")
    assert not Fire.objects.filter(state="retry_wait").exists()


@pytest.mark.parametrize(
    ("values", "words"),
    [({"by": ""}, "by ''"), ({"request": " "}, "request ' '"), ({"request": "x" * 101}, "longer than 100")],
)
def test_what_cannot_be_is_refused(job: Job, values: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidField, match=words):
        run_now([job], **{"by": "anna", **values})
