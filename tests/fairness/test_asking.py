"""Messages that are asked for one by one, on RabbitMQ: what becomes of them when the broker closes their channel."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import amqp
import kombu
import pytest
from amqp.exceptions import RecoverableConnectionError

from fairness.worker.asking import Asking
from tests.processes import PATIENCE_S

pytestmark = pytest.mark.rabbitmq


@pytest.fixture
def channel(rabbitmq_url: str, unique: str) -> Iterator[Any]:
    """With a queue named `unique`."""
    with kombu.Connection(rabbitmq_url) as connection:
        channel: Any = connection.channel()
        channel.queue_declare(unique, durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"})
        yield channel
        channel.queue_delete(unique)


def test_who_took_a_message_before_its_channel_was_closed_does_not_acknowledge_another_one(
    channel, rabbitmq_url, unique
):
    """A queue that is gone closes the channel; one that was opened anew would give the same delivery tags again."""
    for body in ("one", "two"):
        channel.basic_publish(amqp.Message(body), routing_key=unique)
    taken: list[Any] = []
    ended: list[str] = []
    with kombu.Connection(rabbitmq_url) as connection:
        c = SimpleNamespace(connection=connection, connection_errors=connection.connection_errors)
        c.task_consumer = SimpleNamespace(accept=None, on_message=taken.append, on_decode_error=None)
        asking: Asking[str] = Asking(c, on_message=lambda *_: None, on_end=lambda ticket, _: ended.append(ticket))
        asking.connected()
        asking.open()

        def ask(ticket: str, queue: str) -> None:
            asking.ask(ticket, queue)
            while ticket not in ended:
                connection.drain_events(timeout=PATIENCE_S)

        ask("before", unique)
        ask("gone", f"{unique}.gone")
        ask("after", unique)
        before, after = taken
        assert before.delivery_tag == after.delivery_tag == 1

        with pytest.raises(RecoverableConnectionError):
            before.ack()
        after.ack()

    left = channel.basic_get(unique, no_ack=True)
    assert left is not None
    assert {left.body, after.body} == {"one", "two"}
    assert channel.basic_get(unique) is None
