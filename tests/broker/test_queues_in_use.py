"""Queues that come into use and go out of it under those who publish: by rows of Postgres, in a real RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from threading import Event, Thread
from typing import Any
from uuid import UUID

import kombu
import pytest
from django.db import connection
from django.db.models import F

from fairness import queue_map
from fairness.models import Tenant, TenantQueue
from fairness.queue_janitor import BrokerQueuesUnavailable, Janitor, QueueState, Tidied
from fairness.queue_map import QueueMap
from scheduling.broker.broker_queues import KombuQueues, OpenQueues
from scheduling.broker.rabbitmq import RabbitMQPublisher
from scheduling.core.fire import Fire, Verdict
from scheduling.store.connection import Connect, connector
from tests import committed
from tests.broker.conftest import MakeRabbitMQ, Queues
from tests.broker.outcomes import Outcomes, fires, work
from tests.processes import PATIENCE_S

pytestmark = pytest.mark.rabbitmq

committed_db = committed.committed_db
test_database = committed.test_database

DAY_S = 86_400.0
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
FAR_S = 60.0  # in which nobody reads the rows unless told to


@pytest.fixture
def connect(committed_db: None) -> Connect:
    return connector(connection.get_connection_params(), name="queues")


class Publishing:
    """A publisher whose map is told when to read the rows; its queues are those of the test."""

    def __init__(self, publisher: RabbitMQPublisher, outcomes: Outcomes) -> None:
        self.publisher, self.outcomes = publisher, outcomes

    def publish(self, tenant: Tenant, count: int = 1) -> list[Fire]:
        batch = fires(count, work(tenant=tenant.slug, tenant_id=tenant.pk))
        assert self.outcomes.publish(self.publisher, batch) == {Verdict.CONFIRMED: count}
        return batch


Publish = Callable[..., Publishing]


@pytest.fixture
def start(rabbitmq_publisher: MakeRabbitMQ, queues: Queues, connect: Connect, outcomes: Outcomes) -> Publish:
    def make(*, dedicated: int = 10, refresh_s: float = FAR_S) -> Publishing:
        in_use = QueueMap(queues.plan, connect, dedicated=dedicated, shared=2, refresh_s=refresh_s, patience_s=10)

        def queue_for(fire: Fire) -> Any:
            spec = in_use.queue_for(fire.work.tenant, fire.work.tenant_id, fire.work.lane)
            return queues._used.setdefault(spec.name, spec)

        publisher = rabbitmq_publisher(queue_for=queue_for, on_missing=in_use.missing, on_stop=in_use.close)
        publisher.start(outcomes.report)
        return Publishing(publisher, outcomes)

    return make


@pytest.fixture
def janitor(connect: Connect, rabbitmq_url: str) -> Iterator[Janitor]:
    made = Janitor(connect, KombuQueues(rabbitmq_url), idle_s=DAY_S, grace_s=60)
    yield made
    made._rows.close()


@pytest.fixture
def _soon_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher brings back what it has used in the last minute and a half, which here is a day ago."""
    monkeypatch.setattr(queue_map, "LATELY_S", 0.0)


@pytest.fixture
def acme(committed_db: None) -> Tenant:
    return Tenant.objects.create(slug="acme")


def days_pass() -> None:
    """For the rows, and since the retirement of those that are retired."""
    day = timedelta(days=1, seconds=1)
    TenantQueue.objects.update(used_at=F("used_at") - day, retired_at=F("retired_at") - day)


def message_ids(queues: Queues, name: str) -> list[UUID]:
    found = []
    while (message := queues.channel.basic_get(name, no_ack=True)) is not None:
        found.append(UUID(message.properties["correlation_id"]))
    return found


def exists(rabbitmq_url: str, name: str) -> bool:
    with KombuQueues(rabbitmq_url)() as broker:
        return broker.state(name) is not None


@pytest.mark.usefixtures("_soon_forgotten")
def test_declared_at_the_first_grant_retired_live_and_back_again(start, janitor, queues, acme, rabbitmq_url):
    publishing = start(refresh_s=0.01)
    name = queues.plan.queue_name("acme", "bulk")
    assert not exists(rabbitmq_url, name)
    first = publishing.publish(acme)
    assert message_ids(queues, name) == [first[0].id]
    assert janitor.tidy() == Tidied([], [], [])

    days_pass()
    assert janitor.tidy().retired == [name]
    assert janitor.tidy() == Tidied([], [], [])
    days_pass()
    assert janitor.tidy().deleted == [name]
    assert not exists(rabbitmq_url, name)
    assert not TenantQueue.objects.exists()

    again = publishing.publish(acme, 3)
    assert sorted(message_ids(queues, name)) == sorted(fire.id for fire in again)
    assert TenantQueue.objects.get().retired_at is None


def test_what_holds_messages_is_not_retired(start, janitor, queues, acme):
    start().publish(acme)
    days_pass()
    assert janitor.tidy() == Tidied([], [], [])
    assert TenantQueue.objects.get().retired_at is None


def test_what_is_published_by_who_has_not_read_the_retirement_keeps_the_queue_in_use(start, janitor, queues, acme):
    publishing = start()
    name = queues.plan.queue_name("acme", "bulk")
    publishing.publish(acme)
    message_ids(queues, name)
    days_pass()
    assert janitor.tidy().retired == [name]

    (late,) = publishing.publish(acme)
    days_pass()
    assert janitor.tidy() == Tidied([], [name], [])
    assert TenantQueue.objects.get().retired_at is None
    assert message_ids(queues, name) == [late.id]


def test_what_is_published_behind_the_deletion_is_in_a_queue_with_a_row_again(start, janitor, queues, acme):
    publishing = start()
    name = queues.plan.queue_name("acme", "bulk")
    publishing.publish(acme)
    message_ids(queues, name)
    for _ in range(2):
        days_pass()
        janitor.tidy()
    assert not TenantQueue.objects.exists()

    late = publishing.publish(acme, 5)
    publishing.publisher.stop(timeout_s=5)  # its map has read the rows once more when it has ended
    assert sorted(message_ids(queues, name)) == sorted(fire.id for fire in late)
    assert [(row.name, row.retired_at) for row in TenantQueue.objects.all()] == [(name, None)]


def test_who_publishes_while_a_queue_is_being_deleted_waits_and_makes_it_anew(
    start, queues, acme, connect, rabbitmq_url
):
    """Between the janitor's look and its deletion."""
    is_looked, may_delete = Event(), Event()

    class Slow(OpenQueues):
        def delete(self, name: str) -> int:
            is_looked.set()
            assert may_delete.wait(0.9)  # a transaction may not idle for longer
            return super().delete(name)

    @contextmanager
    def look() -> Iterator[Slow]:
        with kombu.Connection(rabbitmq_url) as broker:
            yield Slow(broker)

    publishing = start()
    name = queues.plan.queue_name("acme", "bulk")
    publishing.publish(acme)
    message_ids(queues, name)
    janitor = Janitor(connect, look, idle_s=DAY_S, grace_s=60)
    days_pass()
    assert janitor.tidy().retired == [name]
    other = start()
    days_pass()
    thread = Thread(target=janitor.tidy)
    thread.start()
    assert is_looked.wait(PATIENCE_S)

    batch = fires(1, work(tenant=acme.slug, tenant_id=acme.pk))
    other.publisher.publish(batch)  # its map knows nothing yet, and asks for a row that the janitor holds
    may_delete.set()
    thread.join(PATIENCE_S)
    other.outcomes.wait(2)
    janitor._rows.close()
    assert message_ids(queues, name) == [batch[0].id]
    assert TenantQueue.objects.get().retired_at is None


def test_a_queue_that_somebody_consumes_is_left_until_nobody_does(start, janitor, queues, acme, rabbitmq_url):
    name = queues.plan.queue_name("acme", "bulk")
    start().publish(acme)
    message_ids(queues, name)
    queues.channel.basic_consume(name, consumer_tag="someone", callback=lambda _: None)
    for _ in range(2):
        days_pass()
        janitor.tidy()
    assert exists(rabbitmq_url, name)
    queues.channel.basic_cancel("someone")
    assert janitor.tidy().deleted == [name]


def test_a_row_whose_queue_the_broker_has_lost_goes_too(start, janitor, queues, acme):
    name = queues.plan.queue_name("acme", "bulk")
    start().publish(acme)
    queues.channel.queue_delete(name)
    days_pass()
    assert janitor.tidy().retired == [name]
    days_pass()
    assert janitor.tidy().deleted == [name]


def test_the_queue_of_a_tenant_that_is_gone_goes_too(start, janitor, queues, acme, rabbitmq_url):
    name = queues.plan.queue_name("acme", "bulk")
    start().publish(acme)
    message_ids(queues, name)
    acme.delete()
    for _ in range(2):
        days_pass()
        janitor.tidy()
    assert not exists(rabbitmq_url, name)
    assert not TenantQueue.objects.exists()


def test_what_comes_at_the_last_moment_is_counted(start, queues, acme, connect, caplog):
    name = queues.plan.queue_name("acme", "bulk")
    start().publish(acme, 2)
    days_pass()
    TenantQueue.objects.update(retired_at=F("used_at"))

    class Blind(OpenQueues):
        def state(self, name: str) -> QueueState | None:  # noqa: ARG002  (the janitor's)
            return QueueState(messages=0, consumers=0)

    @contextmanager
    def look() -> Iterator[Blind]:
        yield Blind(queues.channel.connection.client)

    janitor = Janitor(connect, look)
    assert janitor.tidy().deleted == [name]
    janitor._rows.close()
    assert f"2 messages came into {name}" in caplog.text


def test_on_redis_a_queue_that_is_empty_is_none_and_one_that_is_not_stays(connect, acme, redis_url, unique):
    janitor = Janitor(connect, KombuQueues(redis_url), grace_s=60)
    TenantQueue.objects.create(name=unique, tenant=acme, lane="bulk", made_at=LONG_AGO, used_at=LONG_AGO)
    with kombu.Connection(redis_url) as redis, redis.SimpleQueue(unique) as queue:
        assert janitor.tidy().retired == [unique]
        queue.put("late")
        days_pass()
        assert janitor.tidy().restored == [unique]
        queue.clear()
    for _ in range(2):
        days_pass()
        janitor.tidy()
    janitor._rows.close()
    assert not TenantQueue.objects.exists()


def test_a_broker_that_is_not_there_leaves_everything_in_use(connect, acme):
    janitor = Janitor(connect, KombuQueues("amqp://guest@127.0.0.1:1//"))
    TenantQueue.objects.create(name="x", tenant=acme, lane="bulk", made_at=LONG_AGO, used_at=LONG_AGO)
    with pytest.raises(BrokerQueuesUnavailable):
        janitor.tidy()
    janitor._rows.close()
    assert TenantQueue.objects.get().retired_at is None


@pytest.mark.usefixtures("_soon_forgotten")
def test_nothing_is_lost_while_one_publishes_and_others_retire(start, connect, queues, acme, rabbitmq_url):
    """Every queue that is empty is idle here at once: each pause between two bursts may be the end of it."""
    janitors = [Janitor(connect, KombuQueues(rabbitmq_url), idle_s=0.0, grace_s=0.2) for _ in range(2)]
    publishing, name, is_over = start(refresh_s=0.02), queues.plan.queue_name("acme", "bulk"), Event()
    deleted: list[str] = []

    def tidy(janitor: Janitor) -> None:
        while not is_over.is_set():
            deleted.extend(janitor.tidy().deleted)
        janitor._rows.close()

    threads = [Thread(target=tidy, args=(janitor,)) for janitor in janitors]
    for thread in threads:
        thread.start()
    rng, sent, received = Random(7), list[UUID](), list[UUID]()
    while len(deleted) < 3 and len(sent) < 1000:
        sent += [fire.id for fire in publishing.publish(acme, rng.randint(1, 9))]
        if exists(rabbitmq_url, name):
            received += message_ids(queues, name)
        is_over.wait(rng.uniform(0, 0.4))  # nothing is waited for: at any moment of the others' work
    is_over.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    received += message_ids(queues, name) if exists(rabbitmq_url, name) else []
    assert len(deleted) >= 3
    assert sorted(received) == sorted(sent)
