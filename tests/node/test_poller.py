"""A node of stop 2, whole, on a real database: only the broker is in memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection

from fairness import limiting
from fairness.models import Tenant
from scheduling.core.clock import Clock
from scheduling.models import Fire, Job, JobClock, Node
from scheduling.node import poller
from scheduling.node.admitting import Admitting
from scheduling.node.poll_limits import PollLimits
from scheduling.node.share_keeper import LiveNodes
from scheduling.store.connection import connector
from scheduling.store.permits import Permits
from scheduling.store.polling import PollingStore
from tests.fires import make_fire
from tests.node.conftest import Start
from tests.node.test_node import due_jobs, end_sessions, jobs_of, listens
from tests.processes import eventually

TASK = "tests.none"


def test_pollers_share_what_is_due_and_record_what_is_confirmed(start_poller: Start) -> None:
    jobs = due_jobs(30)
    nodes = [start_poller(name, batch=5) for name in "ab"]
    eventually(lambda: Fire.objects.filter(confirmed=True).count() == 30)
    fires = [fire for node in nodes for fire in node.publisher.published]
    assert sorted(jobs_of(fires)) == sorted(jobs)
    assert {node.id for node in Node.objects.all()} == {"a", "b"}


def test_a_job_that_is_made_due_now_does_not_wait_for_a_tick(start_poller: Start) -> None:
    node = start_poller("a", tick_s=600.0)
    due_jobs(1)
    node.publisher.wait_for(1)
    eventually(lambda: listens("a"))
    jobs = due_jobs(1, in_s=-0.5)
    assert jobs_of(node.publisher.wait_for(2))[1:] == list(jobs)


def test_an_end_waits_for_confirms_and_records_them(start_poller: Start) -> None:
    due_jobs(5)
    node = start_poller("a", confirms=False)
    node.publisher.wait_for(5)
    node.stop()
    node.publisher.confirm_all()
    assert node.ended() is None
    assert Fire.objects.filter(confirmed=True).count() == 5
    assert Node.objects.get().lease_until <= JobClock.objects.now()


def test_what_the_broker_does_not_take_is_offered_again(start_poller: Start) -> None:
    jobs = due_jobs(2)
    node = start_poller("a", confirms=False)
    node.publisher.wait_for(2)
    node.publisher.refuse_all()
    again = node.publisher.wait_for(4)[2:]
    assert set(jobs_of(again)) == jobs
    assert {fire.fence for fire in again} == {1}


def test_what_is_never_confirmed_is_published_by_another_under_a_higher_fence(start_poller: Start) -> None:
    jobs = due_jobs(2)
    silent = start_poller("a", confirms=False, confirm_s=0.5)
    silent.publisher.wait_for(2)
    other = start_poller("b", confirm_s=30.0)
    silent.stop()
    found = other.publisher.wait_for(1)
    assert set(jobs_of(found)) <= jobs
    assert all(fire.fence > 1 for fire in found)


def test_a_poller_whose_sessions_are_all_ended_goes_on(start_poller: Start) -> None:
    node = start_poller("a")
    jobs = due_jobs(1)
    node.publisher.wait_for(1)
    for _ in range(4):
        jobs |= due_jobs(4)
        end_sessions("a")
        eventually(lambda: set(jobs_of(node.publisher.published)) >= jobs)  # noqa: B023  (called at once)


def test_history_expires_at_stop_2_too(start_poller: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "EXPIRE_S", 0.2)
    job = Job.objects.once(TASK, JobClock.objects.now() + timedelta(days=9))
    done = make_fire(job, JobClock.objects.now() - timedelta(days=60), state="succeeded", attempt=1)
    start_poller("a")
    eventually(lambda: not Fire.objects.filter(pk=done.pk).exists(), interval_s=0.3)


@pytest.mark.redis
def test_pollers_keep_a_rate_together(start_poller: Start, redis_url: str, unique: str) -> None:
    Tenant.objects.filter(slug="default").update(rate_per_s=20, burst=5)
    due_jobs(25)
    began = time.monotonic()
    nodes = [start_poller(name, tick_s=0.5, limits=limits_of(name, redis_url, unique)) for name in "ab"]
    eventually(lambda: sum(len(node.publisher.published) for node in nodes) == 25, interval_s=0.02)
    assert 1.0 <= time.monotonic() - began < 5
    assert len({fire.id for node in nodes for fire in node.publisher.published}) == 25


def limits_of(name: str, redis_url: str, prefix: str) -> Callable[[PollingStore, Clock], PollLimits]:
    connect, live = connector(connection.get_connection_params(), name=name), LiveNodes(name)
    return lambda store, clock: PollLimits(
        name,
        store=store,
        admitting=Admitting(Permits(connect, clock), limiting.limiter(redis_url, prefix=prefix, node=name, nodes=live)),
        connect=connect,
        clock=clock,
        live=live,
    )
