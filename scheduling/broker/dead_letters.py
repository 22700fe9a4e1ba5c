"""The dead-letter queues of a RabbitMQ, as who brings home what is in them reads them.

::

    open ──▶ take ──▶ (what came of them is committed) ──▶ acknowledge ──▶ take …
               └── the connection ends: the broker gives them to whoever takes next, marked as redelivered

Invariants: nothing is acknowledged but by ``acknowledge``; at most ``prefetch`` messages of a queue are here at a time,
each with the beginning of its body only; several processes share what is in the queues. Used by one thread. Does not
do: reconnect; look into what it takes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import kombu
from amqp.exceptions import AMQPError

from fairness.queues import DeadLetters
from scheduling.broker.amqp_link import CONNECT_TIMEOUT_S, HEARTBEAT_S
from scheduling.core.dead_message import DeadMessage, read
from scheduling.core.errors import FairbeatError

PREFETCH = 50
ARRIVED_S = 0.005  # for what the broker has sent already


class BrokerUnavailable(FairbeatError):
    """The broker does not answer, or refuses what was asked."""


class DeadLetterQueues:
    """``url`` may name several brokers of one cluster, separated by ``;``. ``tls`` is Celery's ``broker_use_ssl``."""

    def __init__(
        self,
        url: str,
        dead: Sequence[DeadLetters],
        *,
        prefetch: int = PREFETCH,
        heartbeat_s: int = HEARTBEAT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        tls: Any = None,
    ) -> None:
        self._urls = deque(url.split(";"))
        self._dead, self._prefetch = dead, prefetch
        self._options: dict[str, Any] = {"heartbeat": heartbeat_s, "connect_timeout": connect_timeout_s}
        if tls:
            self._options["ssl"] = tls
        self._connection: Any = None
        self._channel: Any = None
        self._arrived: list[DeadMessage] = []
        self._last_tag = 0

    def open(self) -> None:
        """Connect, declare the queues where they are missing, and begin to consume them.

        Raises BrokerUnavailable.
        """
        self._arrived.clear()
        try:
            address = kombu.Connection(self._urls[0], **self._options)
            self._connection = address.transport.establish_connection()
            self._channel = self._connection.channel()
            self._channel.basic_qos(0, self._prefetch, False)  # for each consumer
            for dead in self._dead:
                self._consume(dead)
        except (AMQPError, OSError) as error:
            self._urls.rotate(-1)
            self.close()
            raise BrokerUnavailable(f"the dead letters cannot be read: {error}") from error

    def take(self, *, wait_s: float) -> list[DeadMessage]:
        """What has arrived; waits for the first at most ``wait_s``.

        Raises BrokerUnavailable.
        """
        until = time.monotonic() + wait_s
        try:
            while not self._arrived and (left_s := until - time.monotonic()) > 0:
                self._connection.heartbeat_tick()
                self._drain(left_s)
            while self._arrived and len(self._arrived) < self._prefetch and self._drain(ARRIVED_S):
                pass
        except (AMQPError, OSError) as error:
            self.close()
            raise BrokerUnavailable(f"the connection to the dead letters ended: {error}") from error
        taken, self._arrived = self._arrived, []
        return taken

    def acknowledge(self) -> None:
        """All that was taken is done with.

        Raises BrokerUnavailable: it may come again.
        """
        try:
            self._channel.basic_ack(self._last_tag, multiple=True)
        except (AMQPError, OSError) as error:
            self.close()
            raise BrokerUnavailable(f"dead letters were not acknowledged, and come again: {error}") from error

    def close(self) -> None:
        """What was taken and not acknowledged goes back. May be called again; never raises."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(AMQPError, OSError):  # it is given up in any case
                connection.close()
            connection.collect()

    def _consume(self, dead: DeadLetters) -> None:
        channel = self._channel
        channel.exchange_declare(dead.exchange, "direct", durable=True, auto_delete=False)
        channel.queue_declare(dead.queue, durable=True, auto_delete=False, arguments=dict(dead.arguments))
        channel.queue_bind(dead.queue, dead.exchange, dead.routing_key)
        channel.basic_consume(dead.queue, callback=self._receive)

    def _drain(self, timeout_s: float) -> bool:
        """Whether the broker said something within this time."""
        try:
            self._connection.drain_events(timeout=timeout_s)
        except TimeoutError:
            return False
        return True

    def _receive(self, message: Any) -> None:
        self._last_tag = message.delivery_tag
        body = message.body
        self._arrived.append(
            read(
                message.properties.get("application_headers") or {},
                body if isinstance(body, bytes) else str(body).encode(errors="replace"),
                content_type=message.properties.get("content_type") or "",
                is_redelivered=bool(message.delivery_info["redelivered"]),
            )
        )
