"""A user's receivers hear of what a node did, once it is done; and hold nothing up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Condition, Event
from typing import Any
from uuid import UUID

import pytest
from django.dispatch import Signal

from scheduling.core.fire import OverlapPolicy
from scheduling.core.overlap import NEWER_IS_DUE
from scheduling.models import Fire, Job, JobClock
from scheduling.node.hooks import Hooks
from scheduling.signals import job_dead, job_failed, job_fired
from tests.claims import make_fire as claimed_fire
from tests.fires import make_fire
from tests.node.conftest import Running, Start
from tests.node.test_node import TASK, due_jobs
from tests.processes import PATIENCE_S, eventually

StartNode = Callable[..., Running]


class Ears:
    """Hears signals, until the test is over."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self._changed = Condition()
        self._signals: list[Signal] = []

    def listen_to(self, signal: Signal) -> None:
        self._signals.append(signal)
        signal.connect(self._hear)

    def _hear(self, sender: type, **facts: Any) -> None:
        assert sender is Job
        facts.pop("signal")
        with self._changed:
            self.heard.append(facts)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[dict[str, Any]]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.heard) >= count, PATIENCE_S), self.heard
            return list(self.heard)

    def stop(self) -> None:
        for signal in self._signals:
            signal.disconnect(self._hear)


@pytest.fixture
def ears() -> Iterator[Ears]:
    made = Ears()
    yield made
    made.stop()


@pytest.fixture(params=["start", "start_poller"])
def start_either(request: pytest.FixtureRequest) -> Start:
    start: Start = request.getfixturevalue(request.param)
    return start


def test_a_fire_is_told_when_the_broker_has_it_and_not_before(start_either: StartNode, ears: Ears) -> None:
    ears.listen_to(job_fired)
    (job,) = due_jobs(1)
    node = start_either("a", confirms=False)
    (fire,) = node.publisher.wait_for(1)
    assert ears.heard == []
    node.publisher.confirm_all()
    (facts,) = ears.wait_for(1)
    assert (facts["fire_id"], facts["job_id"], facts["task"], facts["tenant"]) == (fire.id, job, TASK, "default")
    assert (facts["origin"], facts["attempt"], facts["scheduled_for"]) == ("", 0, fire.scheduled_for)


def test_a_lost_run_is_told_as_a_failure_or_as_a_death(start_either: StartNode, ears: Ears) -> None:
    ears.listen_to(job_failed)
    ears.listen_to(job_dead)
    job = Job.objects.once(TASK, JobClock.objects.now() + timedelta(days=9))
    again, dead = run_of_a_dead_worker(job, 1, attempt=1), run_of_a_dead_worker(job, 2, attempt=3)
    start_either("a")
    told = {facts["fire_id"]: (facts["reason"], facts["attempt"], facts["error"]) for facts in ears.wait_for(2)}
    assert told == {
        again: ("lost", 1, "the lease ran out"),
        dead: ("attempts_exhausted", 3, "the lease ran out"),
    }
    assert Fire.objects.get(pk=dead).state == "dead", "it was committed before"


def test_a_retry_that_made_room_is_told_as_a_death(start_either: StartNode, ears: Ears) -> None:
    ears.listen_to(job_dead)
    now = JobClock.objects.now()
    job = Job.objects.once(TASK, now, overlap=OverlapPolicy.CANCEL_RUNNING)
    retry = make_fire(job, now - timedelta(minutes=1), state="retry_wait", attempt=1, wake_at=now + timedelta(hours=1))
    start_either("a")
    (facts,) = ears.wait_for(1)
    assert (facts["fire_id"], facts["reason"], facts["error"]) == (retry.pk, "cancelled", NEWER_IS_DUE)


def run_of_a_dead_worker(job: Job, minutes_ago: int, *, attempt: int) -> UUID:
    now = JobClock.objects.now()
    run: dict[str, Any] = {"state": "running", "holder": UUID(int=1), "started_at": now - timedelta(minutes=9)}
    lease = now - timedelta(minutes=1)
    fire = make_fire(job, now - timedelta(minutes=minutes_ago), attempt=attempt, lease_until=lease, **run)
    return fire.pk


def test_a_receiver_that_hangs_holds_nothing_up(start_either: StartNode) -> None:
    is_over = Event()

    def hang(**_: Any) -> None:
        is_over.wait()

    job_fired.connect(hang)
    try:
        jobs = due_jobs(1)
        node = start_either("a")
        node.publisher.wait_for(1)
        jobs |= due_jobs(1)
        assert {fire.work.job_id for fire in node.publisher.wait_for(2)} == jobs
        eventually(lambda: Fire.objects.filter(state="claimed").count() == 2)
    finally:
        is_over.set()
        job_fired.disconnect(hang)


def test_where_nobody_listens_nothing_is_handed_over(ears: Ears) -> None:
    hooks = Hooks()
    assert not hooks.tells_of_fires
    ears.listen_to(job_fired)
    assert hooks.tells_of_fires


def test_what_one_receiver_raises_does_not_keep_the_next_from_hearing(ears: Ears) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("a receiver's own mistake")

    job_fired.connect(fail)
    try:
        ears.listen_to(job_fired)
        hooks = Hooks()
        hooks.start()
        hooks.fired([claimed_fire(seq=1)])
        hooks.fired([claimed_fire(seq=2)])
        ears.wait_for(2)
        hooks.stop(timeout_s=5)
    finally:
        job_fired.disconnect(fail)
