"""The collector of a node, between a real RabbitMQ and a real Postgres."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import amqp
import kombu
import pytest
from django.db import connection

from fairness.queues import QueuePlan
from scheduling import signals
from scheduling.broker.dead_letters import DeadLetterQueues
from scheduling.core import message
from scheduling.core.fire import Lane
from scheduling.models import Fire
from scheduling.models.dead_letter import DeadLetter
from scheduling.models.worker_task import WorkerTask
from scheduling.node import collector as module
from scheduling.node.collector import Collector
from scheduling.store.collect import CollectStore
from scheduling.store.connection import connector
from tests.coordination.etcd_world import database_place
from tests.fires import NOON, headers_of, make_fire, make_job, row_of
from tests.processes import PATIENCE_S, eventually
from tests.proxy import Proxy

pytestmark = pytest.mark.rabbitmq

TASK = "tests.collected"
LANE = Lane.BULK.value


@pytest.fixture
def plan(unique: str) -> QueuePlan:
    return QueuePlan(prefix=unique, delivery_limit=1)


@pytest.fixture
def channel(rabbitmq_url: str, plan: QueuePlan) -> Iterator[Any]:
    with kombu.Connection(rabbitmq_url) as opened:
        channel: Any = opened.channel()
        yield channel
        dead = plan.dead_letters(LANE)
        for name in (plan.queue_name("default", LANE), dead.queue):
            channel.queue_delete(name)
        channel.exchange_delete(dead.exchange)


@pytest.fixture
def proxies(rabbitmq_url: str) -> Iterator[tuple[Proxy, Proxy]]:
    """Before the broker, and before the database."""
    parts = urlsplit(rabbitmq_url)
    broker = Proxy((parts.hostname or "127.0.0.1", parts.port or 5672))
    database = Proxy(database_place())
    yield broker, database
    for proxy in (broker, database):
        proxy.close()


Start = Callable[[], Collector]


@pytest.fixture
def start(
    committed_db: None,
    channel: Any,
    plan: QueuePlan,
    rabbitmq_url: str,
    proxies: tuple[Proxy, Proxy],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Start]:
    """Starts collectors, whose ways to broker and database go through the proxies; with the queue of one tenant."""
    monkeypatch.setattr(module, "LOOK_UP_S", 0.05)
    monkeypatch.setattr(module, "PAUSE_MIN_S", 0.05)
    monkeypatch.setattr(module, "PAUSE_MAX_S", 0.1)
    WorkerTask.objects.create(name=TASK, is_guarded=True, seen_at=datetime.now(UTC))
    broker, database = proxies
    params = connection.get_connection_params() | {"host": "127.0.0.1", "port": database.port}
    started: list[Collector] = []

    def make() -> Collector:
        queues = DeadLetterQueues(broker.through(rabbitmq_url), [plan.dead_letters(LANE)])
        collector = Collector(queues, CollectStore(connector(params, name="collects"), owner_of=plan.owner_of))
        collector.start()
        started.append(collector)
        return collector

    dead = plan.dead_letters(LANE)
    spec = plan.queue("default", LANE)
    channel.exchange_declare(dead.exchange, "direct", durable=True, auto_delete=False)
    channel.queue_declare(dead.queue, durable=True, auto_delete=False, arguments=dict(dead.arguments))
    channel.queue_bind(dead.queue, dead.exchange, dead.routing_key)
    channel.queue_declare(spec.name, durable=True, auto_delete=False, arguments=dict(spec.arguments))
    yield make
    for collector in started:
        collector.stop(timeout_s=5)


@pytest.fixture
def die(channel: Any, plan: QueuePlan) -> Callable[..., None]:
    """Let the fire's message die in its tenant's queue: rejected, or delivered too often."""
    name = plan.queue_name("default", LANE)

    def dies(fire: Fire, *, too_often: bool = False) -> None:
        headers = headers_of(fire)
        sent = amqp.Message(
            message.body("[]", "{}"), content_type="application/json", application_headers=headers, delivery_mode=2
        )
        channel.basic_publish(sent, exchange="", routing_key=name)
        for _ in range(2 if too_often else 1):
            found = eventually(lambda: channel.basic_get(name, no_ack=False))
            channel.basic_reject(found.delivery_tag, requeue=too_often)

    return dies


@pytest.fixture
def told() -> Iterator[SimpleQueue[tuple[str, dict[str, Any]]]]:
    """The signals that were sent, with what they said."""
    heard: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()

    def dead(**facts: Any) -> None:
        heard.put(("job_dead", facts))

    def failed(**facts: Any) -> None:
        heard.put(("job_failed", facts))

    signals.job_dead.connect(dead)
    signals.job_failed.connect(failed)
    yield heard
    signals.job_dead.disconnect(dead)
    signals.job_failed.disconnect(failed)


def a_fire(minute: int = 0, **policy: Any) -> Fire:
    return make_fire(make_job(TASK, **policy), NOON + timedelta(minutes=minute))


def is_empty(channel: Any, plan: QueuePlan) -> bool:
    """Nothing waits, and nobody holds any: a queue can be purged, deleted and asked only for what is ready."""
    return int(channel.queue_declare(plan.dead_letters(LANE).queue, passive=True).message_count) == 0


def test_what_dies_comes_home_and_who_listens_hears_of_it(start, die, told):
    start()
    rejected, often = a_fire(name="a"), a_fire(1, name="b", max_attempts=1)
    die(rejected)
    die(often, too_often=True)

    heard = dict(told.get(timeout=PATIENCE_S) for _ in range(2))
    assert heard["job_failed"]["fire_id"] == rejected.id
    assert (heard["job_failed"]["reason"], heard["job_failed"]["attempt"]) == ("lost", 1)
    assert heard["job_dead"]["fire_id"] == often.id
    assert (heard["job_dead"]["reason"], heard["job_dead"]["name"]) == ("delivery_limit", "b")
    assert (row_of(rejected).state, row_of(often).state) == ("retry_wait", "dead")
    assert DeadLetter.objects.get().fire_id == often.id


def test_a_poison_task_is_a_dead_letter_after_its_attempts(start, die, told):
    """It kills whoever takes it, before they acquire; its owner sends it again, and so on."""
    start()
    fire = a_fire(max_attempts=3)
    for attempt in range(1, 4):
        die(row_of(fire), too_often=True)
        signal, facts = told.get(timeout=PATIENCE_S)
        assert (signal, facts["attempt"]) == ("job_dead" if attempt == 3 else "job_failed", attempt)
        Fire.objects.filter(pk=fire.pk, state="retry_wait").update(state="claimed", wake_at=None)  # as its owner does

    row = row_of(fire)
    assert (row.state, row.reason, row.attempt, row.fence) == ("dead", "delivery_limit", 3, 4)


def test_a_broker_that_goes_and_comes_back_loses_nothing_and_is_told_of_once(start, die, told, proxies, caplog):
    broker, _ = proxies
    with caplog.at_level(logging.INFO, logger=module.__name__):
        start()
        fires = [a_fire(minute) for minute in range(3)]
        die(fires[0])
        told.get(timeout=PATIENCE_S)
        broker.cut(refuse=True)
        for fire in fires[1:]:
            die(fire)
        eventually(lambda: "left where they are" in caplog.text)
        broker.accept_again()
        for _ in fires[1:]:
            told.get(timeout=PATIENCE_S)
        eventually(lambda: "collected again" in caplog.text)

    assert [row_of(fire).state for fire in fires] == ["retry_wait"] * 3
    assert caplog.text.count("left where they are") == 1


def test_a_database_that_is_away_leaves_them_with_the_broker(start, die, told, proxies, channel, plan, caplog):
    broker, database = proxies
    database.cut(refuse=True)
    start()
    fire = a_fire()
    die(fire)
    eventually(lambda: "left where they are" in caplog.text and not is_empty(channel, plan))
    assert broker.connections == 0, "who takes and gives back again and again may lose them"
    database.accept_again()
    told.get(timeout=PATIENCE_S)
    assert row_of(fire).state == "retry_wait"


def test_an_acknowledgement_that_is_lost_changes_nothing_more(start, die, told, proxies, channel, plan):
    """The connection ends between the commit and the acknowledgement: the broker gives the message out again."""
    broker, _ = proxies
    fire, dying = a_fire(), a_fire(1, max_attempts=1)
    collector = start()
    acknowledge, lost = collector._queues.acknowledge, [True]

    def cut_first() -> None:
        if lost:
            lost.pop()
            broker.cut()
        acknowledge()

    collector._queues.acknowledge = cut_first
    die(fire)
    die(dying)

    eventually(lambda: not lost and row_of(fire).state == "retry_wait" and row_of(dying).state == "dead")
    eventually(lambda: is_empty(channel, plan))
    collector.stop(timeout_s=5)
    start()  # for what was on its way to the first one when that ended
    eventually(lambda: is_empty(channel, plan))
    assert (row_of(fire).attempt, row_of(fire).fence) == (1, 2)
    assert (row_of(dying).attempt, DeadLetter.objects.count()) == (1, 1)


def test_several_share_what_there_is_and_each_ends_within_a_second(start, die, told):
    collectors = [start(), start()]
    fires = [a_fire(minute) for minute in range(6)]
    for fire in fires:
        die(fire)
    assert {told.get(timeout=PATIENCE_S)[1]["fire_id"] for _ in fires} == {fire.id for fire in fires}
    for collector in collectors:
        collector.stop(timeout_s=1)
        assert not collector._thread.is_alive()


def test_it_may_be_stopped_without_having_been_started(plan):
    Collector(DeadLetterQueues("amqp://127.0.0.1:1//", []), CollectStore(lambda: None, owner_of=str)).stop(timeout_s=1)  # type: ignore[arg-type, return-value]
