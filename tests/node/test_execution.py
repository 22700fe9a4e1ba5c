"""What a whole node does for what runs, and for what has died: it makes room for the newest, and redrives."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from scheduling.core.fire import OverlapPolicy
from scheduling.core.overlap import NEWER_IS_DUE
from scheduling.models import DeadLetter, Fire, Job, JobClock, Redrive
from scheduling.store.polling import PollingStore
from tests.fires import make_fire
from tests.node.conftest import Start
from tests.node.test_node import TASK, due_jobs, jobs_of
from tests.processes import eventually


@pytest.fixture(params=["start", "start_poller"])
def start_either(request: pytest.FixtureRequest) -> Start:
    start: Start = request.getfixturevalue(request.param)
    return start


def test_the_newest_fire_waits_for_the_one_that_runs_which_is_asked_to_stop(start_either: Start) -> None:
    now = JobClock.objects.now()
    job = Job.objects.once(TASK, now + timedelta(seconds=0.2), overlap=OverlapPolicy.CANCEL_RUNNING)
    runs = make_fire(
        job,
        now - timedelta(minutes=1),
        state="running",
        attempt=1,
        holder=job.pk,
        started_at=now,
        lease_until=now + timedelta(minutes=1),
    )
    node = start_either("a")
    eventually(lambda: Fire.objects.get(pk=runs.pk).cancel_reason == NEWER_IS_DUE)
    assert Fire.objects.exclude(pk=runs.pk).get().reason == "overlap"
    assert node.publisher.published == []
    Fire.objects.filter(pk=runs.pk).update(state="dead", reason="cancelled", lease_until=None, finished_at=now)
    assert jobs_of(node.publisher.wait_for(1)) == [job.pk]


def test_a_dead_letter_that_is_redriven_is_published_under_a_higher_fence(start_either: Start) -> None:
    now = JobClock.objects.now()
    job = Job.objects.once(TASK, now + timedelta(days=9))
    fire = make_fire(job, now, state="dead", reason="gave_up", attempt=3, fence=4, finished_at=now)
    redrive = Redrive.objects.create(asked_at=now, rate_per_s=100, total=1)
    DeadLetter.objects.create(
        fire_id=fire.pk,
        job=job,
        tenant=job.tenant,
        shard_id=job.shard_id,
        history_days=fire.history_days,
        scheduled_for=now,
        fire_at=now,
        schedule_version=1,
        fence=4,
        attempts=3,
        task=TASK,
        reason="gave_up",
        fingerprint="0" * 16,
        died_at=now,
        redrive=redrive,
    )
    (again,) = start_either("a").publisher.wait_for(1)
    assert (again.id, again.fence, again.attempt) == (fire.pk, 5, 3)


def test_a_poller_goes_on_when_the_database_refuses_something_that_it_did_not_expect(
    start_poller: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    polls = [0]
    poll = PollingStore.poll

    def broken_at_first(store: PollingStore, *given: object, **options: object) -> object:
        polls[0] += 1
        if polls[0] <= 2:
            raise psycopg.errors.DivisionByZero("division by zero")
        return poll(store, *given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(PollingStore, "poll", broken_at_first)
    jobs = due_jobs(1)
    node = start_poller("a")
    assert set(jobs_of(node.publisher.wait_for(1))) == jobs
    assert "nothing was claimed" in caplog.text
