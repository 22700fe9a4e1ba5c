"""A message that vanished is sent again, by a whole node on a real database; one that waits in its queue is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Condition

import pytest

from scheduling.broker.memory import MemoryQueueWatch
from scheduling.broker.port import BrokerSilent
from scheduling.core.fire import Fire as HeldFire
from scheduling.core.gates import Queue
from scheduling.models import Fire, Job, JobClock, WorkerTask
from tests import processes
from tests.node.conftest import Running, Start
from tests.node.test_node import TASK, beyond_the_watermarks, due_jobs
from tests.processes import eventually

PATIENCE_S = 0.5

StartNode = Callable[..., Running]


class Watch(MemoryQueueWatch):
    """Counts the looks; a test may have the broker say nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.is_silent = False
        self._changed = Condition()

    def empty(self, fires: Sequence[HeldFire]) -> frozenset[Queue]:
        with self._changed:
            self.looks += 1
            self._changed.notify_all()
        if self.is_silent:
            raise BrokerSilent("it is restarted")
        return super().empty(fires)

    def wait_for_looks(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.looks >= count, processes.PATIENCE_S)


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture(params=["owner", "poller"])
def start_either(request: pytest.FixtureRequest, watch: Watch) -> StartNode:
    """Starts a node of stop 3, or of stop 2, that looks into the queues of ``watch``."""
    if request.param == "owner":
        start: Start = request.getfixturevalue("start")
        return lambda name: start(name, queues=watch, start_patience_s=PATIENCE_S)
    start_poller: Start = request.getfixturevalue("start_poller")
    return lambda name: start_poller(name, queues=watch, patience_s=PATIENCE_S, look_s=0.1)


def a_worker_has_the_task() -> None:
    WorkerTask.objects.create(name=TASK, is_guarded=True, seen_at=JobClock.objects.now())


def test_a_message_that_vanished_is_sent_again_under_the_same_fence(start_either: StartNode) -> None:
    a_worker_has_the_task()
    due_jobs(1)
    node = start_either("a")
    first, again = node.publisher.wait_for(2)[:2]
    assert (again.id, again.fence) == (first.id, first.fence)
    assert Fire.objects.get().sent_again_at is not None
    Fire.objects.update(state="succeeded", attempt=1)
    eventually(lambda: beyond_the_watermarks() == 0)


def test_one_that_waits_in_its_queue_is_left_there_however_long_the_workers_are_out(
    start_either: StartNode, watch: Watch
) -> None:
    a_worker_has_the_task()
    due_jobs(3)
    node = start_either("a")
    (fire, *_) = node.publisher.wait_for(3)
    watch.full.add((fire.work.tenant_id, fire.work.lane))
    watch.wait_for_looks(2)
    assert len(node.publisher.published) == 3
    assert not Fire.objects.filter(sent_again_at__isnull=False).exists()


def test_a_broker_that_does_not_answer_makes_nothing_be_sent_again_until_it_does(
    start_either: StartNode, watch: Watch
) -> None:
    a_worker_has_the_task()
    watch.is_silent = True
    due_jobs(1)
    node = start_either("a")
    watch.wait_for_looks(2)
    assert len(node.publisher.published) == 1
    watch.is_silent = False
    node.publisher.wait_for(2)


def test_what_a_plain_task_was_sent_is_sent_once(start_either: StartNode) -> None:
    WorkerTask.objects.create(name=TASK, is_guarded=False, seen_at=JobClock.objects.now())
    WorkerTask.objects.create(name="tests.guarded", is_guarded=True, seen_at=JobClock.objects.now())
    plain = due_jobs(1)
    Job.objects.once("tests.guarded", JobClock.objects.now())
    published = start_either("a").publisher.wait_for(3)
    assert [fire.work.task for fire in published if fire.work.job_id in plain] == [TASK]
    assert published[2].work.task == "tests.guarded"
