"""What every publisher does, whatever is behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from fairness.queues import QueuePlan
from scheduling.broker.in_process import InProcessPublisher
from scheduling.broker.kombu_publisher import KombuPublisher
from scheduling.broker.memory import MemoryPublisher
from scheduling.broker.port import Publisher
from scheduling.core.fire import Fire, Verdict
from tests.broker.outcomes import Outcomes, fires, unknown

Make = Callable[[], Publisher]


def _acquire_and_return(fire: Fire, acquired: Callable[[], None]) -> None:
    acquired()


@pytest.fixture(
    params=[
        "memory",
        "in_process",
        pytest.param("kombu", marks=pytest.mark.redis),
        pytest.param("rabbitmq", marks=pytest.mark.rabbitmq),
    ]
)
def publisher(request: pytest.FixtureRequest) -> Iterator[Publisher]:
    name = request.param
    if name == "rabbitmq":
        yield request.getfixturevalue("rabbitmq_publisher")()
    elif name == "kombu":
        yield from _kombu(request.getfixturevalue("redis_url"), request.getfixturevalue("unique"))
    elif name == "in_process":
        yield InProcessPublisher(_acquire_and_return, threads=3, capacity=10_000)
    else:
        yield ConfirmsWhenStopped()


class ConfirmsWhenStopped(MemoryPublisher):
    """The test decides the outcomes of the twin in memory; this one decides that all is well."""

    def publish(self, batch: Any) -> None:
        super().publish(batch)
        thread = threading.Thread(target=self.confirm)
        thread.start()
        thread.join()


def _kombu(url: str, unique: str) -> Iterator[Publisher]:
    spec = QueuePlan(prefix=unique).queue("acme", "bulk")
    made = KombuPublisher(url, origin="gen1@test", ignore_result=unknown, queue_for=lambda _: spec)
    yield made
    made.stop(timeout_s=1)
    redis.Redis.from_url(url).delete(spec.name)


def test_every_fire_gets_one_outcome_and_it_is_confirmed(publisher: Publisher, outcomes: Outcomes) -> None:
    publisher.start(outcomes.report)
    batch = fires(1000)
    for at in range(0, 1000, 100):
        publisher.publish(batch[at : at + 100])
    assert outcomes.wait(1000) == {Verdict.CONFIRMED: 1000}
    publisher.stop(timeout_s=10)
    assert outcomes.per_fire() == {one.id: 1 for one in batch}


def test_outcomes_are_never_reported_by_the_publishing_thread(publisher: Publisher, outcomes: Outcomes) -> None:
    publisher.start(outcomes.report)
    outcomes.publish(publisher, fires(20))
    assert threading.get_ident() not in outcomes.threads


def test_when_stop_returns_every_fire_has_its_outcome(publisher: Publisher, outcomes: Outcomes) -> None:
    publisher.start(outcomes.report)
    batch = fires(500)
    publisher.publish(batch)
    publisher.stop(timeout_s=20)
    assert outcomes.per_fire() == {one.id: 1 for one in batch}
    assert outcomes.verdicts == {Verdict.CONFIRMED: 500}


def test_a_fire_may_be_published_again_after_its_outcome(publisher: Publisher, outcomes: Outcomes) -> None:
    publisher.start(outcomes.report)
    batch = fires(3)
    assert outcomes.publish(publisher, batch) == outcomes.publish(publisher, batch) == {Verdict.CONFIRMED: 3}


def test_publishing_nothing_reports_nothing(publisher: Publisher, outcomes: Outcomes) -> None:
    publisher.start(outcomes.report)
    publisher.publish([])
    publisher.stop(timeout_s=5)
    assert outcomes.all == []


def test_publishing_before_start_is_an_error(publisher: Publisher) -> None:
    with pytest.raises(RuntimeError, match="not running"):
        publisher.publish(fires(1))


def test_publishing_after_stop_is_an_error(publisher: Publisher, outcomes: Outcomes) -> None:
    publisher.start(outcomes.report)
    publisher.stop(timeout_s=5)
    with pytest.raises(RuntimeError, match="not running"):
        publisher.publish(fires(1))
    assert outcomes.all == []


def test_stop_may_be_called_again_and_without_start(publisher: Publisher, outcomes: Outcomes) -> None:
    publisher.stop(timeout_s=1)
    publisher.start(outcomes.report)
    publisher.stop(timeout_s=5)
    publisher.stop(timeout_s=5)
    assert outcomes.all == []
