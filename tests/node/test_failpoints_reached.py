"""Each failpoint is passed in the life of a fire: one that no code reaches would be a fault that nobody ever tried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from fairness.queues import QueuePlan
from project.demo.models import Effect
from project.demo.queues import remove
from scheduling import current_job, failpoints, job
from scheduling.broker.kombu_publisher import KombuPublisher
from scheduling.broker.port import Publisher
from scheduling.broker.rabbitmq import RabbitMQPublisher
from scheduling.core.fire import Fire as HeldFire
from scheduling.core.fire import Outcome, Verdict
from scheduling.core.sharding import assign
from scheduling.failpoints import Point
from scheduling.worker.in_process import run_fire
from tests.fires import claimed, make_fire, make_job
from tests.node.conftest import SHARDS, Start
from tests.node.test_node import due_jobs, owners, owns_all
from tests.processes import eventually

PUBLISH = {Point.PUBLISH_BEFORE, Point.PUBLISH_SENT, Point.PUBLISH_CONFIRMED}
OWNER = {Point.TAKE_OVER_BEFORE, Point.TAKE_OVER_COMMITTED, Point.HAND_OVER_DRAINED, Point.HAND_OVER_RELEASED}
CLAIM = {Point.CLAIM_BEFORE, Point.CLAIM_COMMITTED, Point.RECORD_BEFORE, Point.RECORD_COMMITTED}
WORKER = {Point.ACQUIRE_BEFORE, Point.ACQUIRE_COMMITTED, Point.COMPLETE_BEFORE, Point.COMPLETE_COMMITTED}
STEP = {Point.STEP_BEGUN, Point.STEP_CALLED, Point.STEP_DONE}


@pytest.fixture
def reached() -> Iterator[set[Point]]:
    """The points that this process has passed so far."""
    found: set[Point] = set()
    with ExitStack() as stack:
        for point in Point:
            stack.enter_context(failpoints.armed(point, partial(found.add, point)))
        yield found


@pytest.fixture
def fire(committed_db: None) -> Iterator[HeldFire]:
    """Of the demo's task, claimed by hand."""
    yield claimed(make_fire(make_job("project.demo.tasks.effect")))
    Effect.objects.all().delete()


def test_an_owner_passes_its_points(start: Start, reached: set[Point]) -> None:
    first = start("a")
    eventually(lambda: owns_all("a"))
    due_jobs(1)
    first.publisher.wait_for(1)
    start("b")
    eventually(lambda: owners() == assign(SHARDS, {"a": 1.0, "b": 1.0}))
    eventually(lambda: reached == OWNER | CLAIM)


def test_a_poller_passes_those_of_a_claim(start_poller: Start, reached: set[Point]) -> None:
    due_jobs(1)
    start_poller("a")
    eventually(lambda: reached == CLAIM)


@pytest.mark.parametrize(("broker", "kind"), [("rabbitmq", RabbitMQPublisher), ("redis", KombuPublisher)])
def test_a_publisher_passes_its_points(
    broker: str, kind: type, fire: HeldFire, unique: str, reached: set[Point], request: pytest.FixtureRequest
) -> None:
    url: str = request.getfixturevalue(f"{broker}_url")
    plan = QueuePlan(prefix=unique)
    outcomes: list[Outcome] = []
    publisher: Publisher = kind(
        url,
        origin="gen1@test",
        ignore_result=lambda _: None,
        queue_for=lambda one: plan.queue(one.work.tenant, one.work.lane),
    )
    publisher.start(outcomes.extend)
    try:
        publisher.publish([fire])
        eventually(lambda: outcomes == [Outcome(fire, Verdict.CONFIRMED)])
    finally:
        publisher.stop(timeout_s=5)
        remove(url, plan, ["default"])
    assert reached == PUBLISH


def test_a_worker_passes_its_points(fire: HeldFire, reached: set[Point]) -> None:
    run_fire(fire, lambda: None)
    assert Effect.objects.count() == 1
    assert reached == WORKER


def test_a_task_with_a_step_passes_those_too(reached: set[Point], committed_db: None) -> None:
    @job(name=f"tests.{__name__}.in_steps")
    def in_steps() -> None:
        current_job().step("only", lambda: None)

    run_fire(claimed(make_fire(make_job(in_steps.name))), lambda: None)
    assert reached == WORKER | STEP


def test_that_is_all_of_them() -> None:
    assert set(Point) == OWNER | CLAIM | PUBLISH | WORKER | STEP
