"""Reading the dead-letter queues of a real RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import amqp
import pytest

from fairness.queues import QueuePlan
from scheduling.broker.dead_letters import BrokerUnavailable, DeadLetterQueues
from scheduling.core import message
from scheduling.core.dead_message import DeadMessage, Death
from scheduling.core.fire import Lane
from tests.broker.conftest import Queues
from tests.broker.outcomes import fire
from tests.broker.proxy import Proxy

pytestmark = pytest.mark.rabbitmq

BODY = message.body("[]", "{}")

Open = Callable[..., DeadLetterQueues]


@pytest.fixture
def plan(unique: str) -> QueuePlan:
    return QueuePlan(prefix=unique, delivery_limit=1)


@pytest.fixture
def open_(rabbitmq_url: str, queues: Queues, plan: QueuePlan) -> Iterator[Open]:
    """Begin to read the dead letters of the lane `bulk`; with the tenant's queue `acme` beside them."""
    queues.plan = plan
    opened: list[DeadLetterQueues] = []

    def make(url: str = rabbitmq_url, **options: Any) -> DeadLetterQueues:
        opened.append(DeadLetterQueues(url, [plan.dead_letters(Lane.BULK)], **options))
        opened[-1].open()
        spec = queues.of("acme")
        queues.channel.queue_declare(spec.name, durable=True, auto_delete=False, arguments=dict(spec.arguments))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def publish(queues: Queues) -> Callable[..., None]:
    def send(body: bytes = BODY, *, expiration: str | None = None, **headers: Any) -> None:
        options = {"expiration": expiration} if expiration is not None else {}
        sent = amqp.Message(
            body, content_type="application/json", content_encoding="utf-8", application_headers=headers, **options
        )
        queues.channel.basic_publish(sent, exchange="", routing_key=queues.of("acme").name)

    return send


def reject(queues: Queues, *, requeue: bool = False) -> None:
    """Of the first message: what a worker does that cannot execute it, or that dies with it."""
    while (found := queues.channel.basic_get(queues.of("acme").name, no_ack=False)) is None:
        pass
    queues.channel.basic_reject(found.delivery_tag, requeue=requeue)


def take(dead: DeadLetterQueues, count: int = 1) -> list[DeadMessage]:
    """So many of them, in however many goes."""
    taken: list[DeadMessage] = []
    while len(taken) < count:
        some = dead.take(wait_s=10)
        assert some, f"{len(taken)} of {count} came"
        taken += some
    return taken


def test_a_rejected_message_says_what_it_was_and_where_when_and_why_it_died(open_, publish, queues):
    dead, sent = open_(), fire()
    publish(**message.headers(sent, origin="gen1@test", ignore_result=None))
    reject(queues)

    (one,) = take(dead)
    assert (one.death, one.queue, one.is_redelivered) == (Death.REJECTED, queues.of("acme").name, False)
    assert abs(one.died_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert (one.task, one.problem, one.body) == (sent.work.task, "", BODY)
    assert one.fire is not None
    assert (one.fire.fire_id, one.fire.fence, one.fire.tenant) == (sent.id, sent.fence, "acme")


def test_what_was_delivered_too_often_and_what_waited_too_long_say_so(open_, publish, queues):
    dead = open_()
    publish(task="often")
    reject(queues, requeue=True)
    reject(queues, requeue=True)
    publish(task="long", expiration="0")

    assert {one.task: one.death for one in take(dead, 2)} == {
        "often": Death.DELIVERY_LIMIT,
        "long": Death.EXPIRED,
    }


def test_what_was_not_acknowledged_comes_again_and_what_was_does_not(open_, publish, queues):
    dead = open_()
    for number in range(3):
        publish(task=f"{number}")
        reject(queues)
    taken = take(dead, 3)
    dead.close()

    dead.open()
    again = take(dead, 3)
    assert sorted(one.task for one in again) == sorted(one.task for one in taken) == ["0", "1", "2"]
    assert all(one.is_redelivered for one in again)
    dead.acknowledge()
    dead.close()

    dead.open()
    assert dead.take(wait_s=0.3) == []


def test_no_more_are_held_than_the_prefetch_and_others_share_the_rest(open_, publish, queues):
    first, second = open_(prefetch=2), open_(prefetch=2)
    for number in range(4):
        publish(task=f"{number}")
        reject(queues)

    taken = take(first, 2) + take(second, 2)
    assert sorted(one.task for one in taken) == ["0", "1", "2", "3"]
    assert first.take(wait_s=0.1) == []


def test_only_the_beginning_of_a_large_body_is_kept_and_it_need_not_be_a_text(open_, publish, queues):
    dead = open_()
    publish(b"\xff" * 300_000)
    reject(queues)
    (one,) = take(dead)
    assert one.body == b"\xff" * 64 * 1024
    assert one.problem.startswith("its body is no JSON")


def test_a_connection_that_ends_is_told_and_can_be_made_again(open_, publish, queues, rabbitmq_url):
    proxy = Proxy(rabbitmq_url)
    dead = open_(proxy.url)
    proxy.cut()
    with pytest.raises(BrokerUnavailable):
        dead.take(wait_s=10)
    dead.open()
    publish(task="after")
    reject(queues)
    assert [one.task for one in take(dead)] == ["after"]

    queues.channel.queue_delete(queues.of("acme").dead_letters.queue)
    with pytest.raises(BrokerUnavailable):
        dead.take(wait_s=10)
    proxy.close()


def test_a_broker_that_is_not_there_is_told(plan):
    with pytest.raises(BrokerUnavailable, match="cannot be read"):
        DeadLetterQueues("amqp://127.0.0.1:1//", [plan.dead_letters(Lane.BULK)]).open()
