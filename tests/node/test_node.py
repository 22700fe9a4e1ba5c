"""A node of stops 1 and 3, whole, on a real database: only the broker is in memory."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from scheduling.coordination.postgres import PostgresCoordinator
from scheduling.coordination.single import SingleNode
from scheduling.core import upkeep
from scheduling.core.fire import Fire as HeldFire
from scheduling.core.sharding import assign
from scheduling.models import Fire, Job, JobClock, Node, Shard
from scheduling.models.hints import CHANNEL
from scheduling.node import node as node_module
from scheduling.node.node import Superseded
from scheduling.store import reap
from scheduling.store.connection import NODE_PREFIX
from tests.fires import make_fire
from tests.node.conftest import SHARDS, Start
from tests.processes import eventually

TASK = "tests.none"
BEYOND = """
SELECT count(*) FROM scheduling_fire f JOIN scheduling_shardprogress p ON p.shard_id = f.shard_id
WHERE f.state = 'claimed' AND (f.seq_epoch, f.seq) > (p.seq_epoch, p.seq) AND f.fire_at <= fairbeat_job_now()
"""


def due_jobs(count: int, *, in_s: float = 0.0) -> set[UUID]:
    """Jobs of one instant each, due then; their ids."""
    at = JobClock.objects.now() + timedelta(seconds=in_s)
    return {Job.objects.once(TASK, at, name=f"{at} {n}").pk for n in range(count)}


def jobs_of(fires: list[HeldFire]) -> list[UUID]:
    return [fire.work.job_id for fire in fires]


def beyond_the_watermarks() -> int:
    with connection.cursor() as cursor:
        cursor.execute(BEYOND)
        return int(cursor.fetchone()[0])


def end_sessions(name: str) -> None:
    """The server ends all sessions of this node."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = %s",
            [f"{NODE_PREFIX} {name}"],
        )


def listens(name: str) -> bool:
    """Whether the node hears hints by now."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
            " AND query = %s AND state = 'idle'",
            [f"{NODE_PREFIX} {name}", f'LISTEN "{CHANNEL}"'],
        )
        return bool(cursor.fetchone()[0])


def owners() -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for shard, owner in Shard.objects.filter(owner__isnull=False).values_list("id", "owner_id"):
        found.setdefault(owner, set()).add(shard)
    return {owner: frozenset(shards) for owner, shards in found.items()}


def owns_all(name: str) -> bool:
    return owners() == {name: frozenset(range(SHARDS))}


def test_due_jobs_are_claimed_published_in_time_and_recorded(start: Start) -> None:
    jobs = due_jobs(20) | due_jobs(10, in_s=1.2)
    node = start("a")
    fires = node.publisher.wait_for(30)
    now = JobClock.objects.now()
    assert set(jobs_of(fires)) == jobs
    assert len(fires) == 30
    assert all(fire.fire_at <= now for fire in fires)
    eventually(lambda: beyond_the_watermarks() == 0)
    assert set(Fire.objects.values_list("state", "fence")) == {("claimed", 1)}


def test_a_job_that_is_made_due_now_does_not_wait_for_a_poll(start: Start) -> None:
    node = start("a", poll_s=600.0)
    due_jobs(1)
    node.publisher.wait_for(1)
    eventually(lambda: listens("a"))
    jobs = due_jobs(1)
    assert jobs_of(node.publisher.wait_for(2))[1:] == list(jobs)


def test_a_job_that_repeats_fires_every_time_once_and_in_order(start: Start) -> None:
    Job.objects.every(TASK, timedelta(milliseconds=200), anchor=JobClock.objects.now())
    fires = start("a").publisher.wait_for(8)
    instants = [fire.scheduled_for for fire in fires]
    steps = {later - earlier for earlier, later in pairwise(instants)}
    assert steps == {timedelta(milliseconds=200)}


def test_an_end_waits_for_confirms_records_them_and_frees_the_shards_at_once(start: Start) -> None:
    due_jobs(5)
    waits = due_jobs(1, in_s=0.9)
    node = start("a", confirms=False)
    published = node.publisher.wait_for(5)
    node.stop()
    node.publisher.confirm_all()
    before = time.monotonic()
    assert node.ended() is None
    assert time.monotonic() - before < node_module.DRAIN_S
    assert owners() == {}
    assert Node.objects.get().lease_until <= JobClock.objects.now()
    assert waits.isdisjoint(jobs_of(published))
    assert beyond_the_watermarks() == 0


def test_what_a_node_left_behind_is_recovered_by_the_next_and_published_under_a_higher_fence(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = due_jobs(3)
    first = start("a", confirms=False)
    first.publisher.wait_for(3)
    monkeypatch.setattr(node_module, "DRAIN_S", 0.1)
    first.stop()
    first.ended()
    again = start("b").publisher.wait_for(3)
    assert set(jobs_of(again)) == jobs
    assert {fire.fence for fire in again} == {2}
    eventually(lambda: beyond_the_watermarks() == 0)


def test_a_second_node_takes_its_share_and_everything_is_still_fired_once(start: Start) -> None:
    Job.objects.every(TASK, timedelta(milliseconds=250), anchor=JobClock.objects.now(), name="goes on")
    first = start("a")
    eventually(lambda: owns_all("a"))
    second = start("b")
    shares = assign(SHARDS, {"a": 1.0, "b": 1.0})
    eventually(lambda: owners() == shares)
    jobs = due_jobs(40)
    eventually(lambda: Fire.objects.filter(job_id__in=jobs).count() == 40)
    eventually(lambda: beyond_the_watermarks() == 0)
    fires = [*first.publisher.published, *second.publisher.published]
    assert sorted(fire.work.job_id for fire in fires if fire.work.job_id in jobs) == sorted(jobs)
    for node, name in ((first, "a"), (second, "b")):
        own = [fire.work.shard for fire in node.publisher.published if fire.work.job_id in jobs]
        assert set(own) <= shares[name]


def vanish(coordinator: PostgresCoordinator) -> None:
    """In place of `leave`: nobody is told."""
    assert coordinator._listener is not None
    coordinator._listener.stop()
    coordinator._row.link.close()


def test_the_shards_of_a_killed_node_are_taken_after_its_lease_and_what_it_held_is_fired(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start("a", confirms=False, lease_s=2.0)
    eventually(lambda: owns_all("a"))
    second = start("b", lease_s=2.0)
    shares = assign(SHARDS, {"a": 1.0, "b": 1.0})
    eventually(lambda: owners() == shares)
    jobs = due_jobs(30)
    eventually(lambda: Fire.objects.count() == 30)
    monkeypatch.setattr(node_module, "DRAIN_S", 0.0)
    monkeypatch.setattr(PostgresCoordinator, "leave", vanish)
    first.stop()
    first.ended()
    assert owners()["a"] == shares["a"], "nobody was told"
    eventually(lambda: owns_all("b"))
    eventually(lambda: beyond_the_watermarks() == 0)
    assert {fire.work.job_id for fire in second.publisher.published} == jobs
    taken = [fire for fire in second.publisher.published if fire.work.shard in shares["a"]]
    assert taken
    assert {fire.fence for fire in taken} == {2}


def test_a_lone_node_ends_when_another_has_taken_over(start: Start) -> None:
    first = start("a", kind=SingleNode, alone=True)
    eventually(lambda: owns_all("a"))
    second = start("b", kind=SingleNode, alone=True)
    problem = first.ended()
    assert isinstance(problem, Superseded)
    assert "only one may run" in str(problem)
    eventually(lambda: owns_all("b"))
    jobs = due_jobs(3)
    assert set(jobs_of(second.publisher.wait_for(3))) == jobs


def test_a_job_whose_schedule_cannot_be_read_is_put_aside_with_its_problem_and_its_shard_goes_on(start: Start) -> None:
    bad = Job.objects.cron(TASK, "0 0 1 1 *")
    Job.objects.filter(pk=bad.pk).update(cron="61 * * * *")
    good = Job.objects.once(TASK, JobClock.objects.now())
    Job.objects.filter(pk=good.pk).update(shard_id=bad.shard_id)
    node = start("a")
    assert jobs_of(node.publisher.wait_for(1)) == [good.pk]
    eventually(lambda: Job.objects.get(pk=bad.pk).problem)
    bad.refresh_from_db()
    assert bad.problem.startswith("cron '61 * * * *'")
    assert (bad.next_scheduled_for, bad.next_fire_at) == (None, None)


def test_a_job_that_is_edited_fires_by_its_new_schedule_within_a_poll(start: Start) -> None:
    job = Job.objects.once(TASK, JobClock.objects.now() + timedelta(days=9))
    node = start("a")
    eventually(lambda: owns_all("a"))
    at = JobClock.objects.now() + timedelta(seconds=1)
    Job.objects.filter(pk=job.pk).update(at=at)
    assert [fire.scheduled_for for fire in node.publisher.wait_for(1)] == [at]


def test_history_expires_and_days_with_unfinished_fires_are_kept(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "EXPIRE_S", 0.2)  # a day that is being read is left to the next time
    job = Job.objects.once(TASK, JobClock.objects.now() + timedelta(days=9))
    long_ago = JobClock.objects.now() - timedelta(days=60)
    done = make_fire(job, long_ago, state="succeeded", attempt=1)
    parked = make_fire(
        job,
        long_ago + timedelta(days=3),
        state="parked",
        reason="overlap",
        wake_at=long_ago + timedelta(days=900),
    )
    start("a")
    eventually(lambda: not Fire.objects.filter(pk=done.pk).exists(), interval_s=0.3)
    assert Fire.objects.filter(pk=parked.pk).exists()


def test_what_the_broker_does_not_take_is_offered_again_until_it_does(start: Start) -> None:
    jobs = due_jobs(3)
    node = start("a", confirms=False)
    node.publisher.wait_for(3)
    node.publisher.refuse_all()
    again = node.publisher.wait_for(6)[3:]
    assert set(jobs_of(again)) == jobs
    assert {fire.fence for fire in again} == {1}
    node.publisher.confirm_all()
    eventually(lambda: Fire.objects.filter(state="claimed").count() == 3)
    eventually(lambda: beyond_the_watermarks() == 0)


def test_a_node_whose_sessions_are_all_ended_goes_on_and_nothing_is_lost(start: Start) -> None:
    node = start("a")
    eventually(lambda: owns_all("a"))
    jobs = set[UUID]()
    for _ in range(5):
        jobs |= due_jobs(4)
        end_sessions("a")
        eventually(lambda: set(jobs_of(node.publisher.published)) >= jobs)  # noqa: B023  (called at once)
    eventually(lambda: beyond_the_watermarks() == 0)
    by_fence = {(fire.id, fire.fence) for fire in node.publisher.published}
    assert len(by_fence) == len(node.publisher.published), "the same copy was published twice without a doubt"


def test_in_a_time_lapse_a_day_is_played_in_seconds_and_stands_still_at_its_end(start: Start) -> None:
    noon = datetime.fromisoformat("2026-03-02T12:00:00+00:00")
    JobClock.objects.create(job_origin=noon, real_origin=None, speed=43_200)
    job = Job.objects.every(TASK, timedelta(hours=1), anchor=noon, misfire_grace_s=3600.0)
    node = start("a")
    eventually(lambda: owns_all("a"))
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduling_jobclock SET real_origin = clock_timestamp() + interval '1 s', stops_after_s = 2"
        )
    fires = node.publisher.wait_for(24)
    hours = [(fire.scheduled_for - noon) / timedelta(hours=1) for fire in fires]
    assert hours == [float(hour) for hour in range(1, 25)]
    assert {fire.work.job_id for fire in fires} == {job.pk}
    eventually(lambda: beyond_the_watermarks() == 0)


def test_an_end_frees_the_shards_also_when_the_session_of_the_lease_has_just_broken(start: Start) -> None:
    node = start("a")
    eventually(lambda: owns_all("a"))
    end_sessions("a")
    node.stop()
    assert node.ended() is None
    assert owners() == {}


def test_many_lost_runs_are_all_retried_though_one_reap_ends_only_some(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reap, "BATCH", 3)
    monkeypatch.setattr(upkeep, "REAP_S", 60.0)
    job = Job.objects.once(TASK, JobClock.objects.now() + timedelta(days=9))
    now = JobClock.objects.now()
    run: dict[str, Any] = {
        "state": "running",
        "attempt": 1,
        "started_at": now - timedelta(minutes=9),
        "holder": UUID(int=1),
    }
    fires = {
        make_fire(job, now - timedelta(minutes=n), lease_until=now - timedelta(minutes=1), **run).pk for n in range(10)
    }
    again = start("a").publisher.wait_for(10)
    assert {fire.id for fire in again} == fires
    assert {(fire.fence, fire.attempt) for fire in again} == {(2, 1)}
