"""Takes messages from the tenants' queues and puts others in, past all nodes and proxies."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Self

import amqp
import kombu

from project.celery import queue_plan
from scheduling.core.fire import Lane


def queue_of(tenant: str, lane: Lane = Lane.BULK) -> str:
    return queue_plan().queue_name(tenant, lane)


class Mail:
    """One connection; what was taken and not acknowledged goes back when it ends."""

    def __init__(self, url: str) -> None:
        self._broker = kombu.Connection(url, transport_options={"confirm_publish": True})
        self.channel: Any = self._broker.channel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.release()

    def take(self, queues: Iterable[str], *, for_s: float, most: int) -> list[Any]:
        """What comes meanwhile, in competition with the workers."""
        taken: list[Any] = []
        names = list(queues)
        self.channel.basic_qos(0, most // len(names), False)
        tags = [self.channel.basic_consume(queue, callback=taken.append) for queue in names]
        until = time.monotonic() + for_s
        while (left_s := until - time.monotonic()) > 0 and len(taken) < most:
            with suppress(TimeoutError):
                self._broker.drain_events(timeout=left_s)
        for tag in tags:
            self.channel.basic_cancel(tag)
        return taken

    def post(self, queue: str, body: bytes | str, **properties: Any) -> None:
        """Returns once the broker has it."""
        self.channel.basic_publish(amqp.Message(body, delivery_mode=2, **properties), routing_key=queue)

    def post_copy(self, message: Any) -> None:
        """The same message once more, where it came from."""
        properties = dict(message.properties) | {"delivery_mode": 2}
        self.channel.basic_publish(
            amqp.Message(message.body, **properties), routing_key=message.delivery_info["routing_key"]
        )

    def acknowledge(self, messages: Sequence[Any]) -> None:
        for message in messages:
            self.channel.basic_ack(message.delivery_tag)

    def purge(self, queue: str) -> int:
        """How many messages are gone."""
        return int(self.channel.queue_purge(queue))

    def delete(self, queue: str) -> int:
        """How many messages are gone with it."""
        return int(self.channel.queue_delete(queue))
