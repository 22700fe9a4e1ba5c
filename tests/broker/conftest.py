"""Queues of a test's own on a shared broker, deleted behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import kombu
import pytest

from fairness.queues import QueuePlan, QueueSpec
from scheduling.broker.rabbitmq import RabbitMQPublisher
from scheduling.core.fire import Fire
from tests.broker.outcomes import Outcomes, unknown
from tests.broker.proxy import Proxy


class Queues:
    """The queues of a test: `queue_for` names them as the product does, the rest looks into the broker."""

    def __init__(self, prefix: str, channel: Any) -> None:
        self.channel = channel
        self.plan = QueuePlan(prefix=prefix)
        self._used: dict[str, QueueSpec] = {}

    def queue_for(self, fire: Fire) -> QueueSpec:
        return self.of(fire.work.tenant, fire.work.lane)

    def names_of(self, fire: Fire) -> list[str]:
        return [self.queue_for(fire).name]

    def of(self, tenant: str, lane: str = "bulk") -> QueueSpec:
        spec = self.plan.queue(tenant, lane)
        return self._used.setdefault(spec.name, spec)

    def size(self, tenant: str, lane: str = "bulk") -> int:
        return int(self.channel.queue_declare(self.of(tenant, lane).name, passive=True).message_count)

    def get(self, tenant: str) -> Any:
        """The first message, taken out; None where there is none."""
        return self.channel.basic_get(self.of(tenant).name, no_ack=True)

    def delete(self) -> None:
        for spec in self._used.values():
            self.channel.queue_delete(spec.name)
            self.channel.exchange_delete(spec.name)  # of that name where Celery declared the queue as well
            if dead := spec.dead_letters:
                self.channel.queue_delete(dead.queue)
                self.channel.exchange_delete(dead.exchange)


@pytest.fixture
def queues(rabbitmq_url: str, unique: str) -> Iterator[Queues]:
    with kombu.Connection(rabbitmq_url) as connection:
        channel: Any = connection.channel()
        made = Queues(unique, channel)
        yield made
        made.delete()


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


MakeRabbitMQ = Callable[..., RabbitMQPublisher]


@pytest.fixture
def rabbitmq_publisher(rabbitmq_url: str, queues: Queues) -> Iterator[MakeRabbitMQ]:
    """Makes publishers, over another address where one is given; stops them behind the test."""
    made: list[RabbitMQPublisher] = []

    def make(url: str = rabbitmq_url, **options: Any) -> RabbitMQPublisher:
        values = {"origin": "gen1@test", "ignore_result": unknown, "queue_for": queues.queue_for, **options}
        made.append(RabbitMQPublisher(url, **values))
        return made[-1]

    yield make
    for publisher in made:
        publisher.stop(timeout_s=1)


@pytest.fixture
def proxy(rabbitmq_url: str) -> Iterator[Proxy]:
    made = Proxy(rabbitmq_url)
    yield made
    made.close()
