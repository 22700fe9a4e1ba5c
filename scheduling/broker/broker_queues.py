"""The queues of a broker as the janitor sees them: what is in one, and away with it. Any transport of kombu will do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import kombu
from amqp.exceptions import ChannelError
from kombu.exceptions import KombuError

from fairness.queue_janitor import BrokerQueuesUnavailable, QueueState
from scheduling.broker.queue_watch import CONNECT_TIMEOUT_S, NOT_FOUND


class KombuQueues:
    """Connects for each look, since there is one in a minute. ``tls`` is Celery's ``broker_use_ssl``."""

    def __init__(self, url: str, *, transport_options: Mapping[str, Any] | None = None, tls: Any = None) -> None:
        self._address = kombu.Connection(
            url,
            connect_timeout=CONNECT_TIMEOUT_S,
            transport_options=dict(transport_options or {}),
            **({"ssl": tls} if tls else {}),
        )

    @contextmanager
    def __call__(self) -> Iterator[OpenQueues]:
        with self._address.clone() as connection:
            failures: tuple[type[BaseException], ...] = (
                *connection.connection_errors,
                *connection.channel_errors,
                KombuError,
                OSError,
            )
            try:
                connection.ensure_connection(max_retries=1, interval_start=0)
                yield OpenQueues(connection)
            except failures as problem:
                raise BrokerQueuesUnavailable(f"the broker does not tell of its queues: {problem}") from problem


class OpenQueues:
    """``BrokerQueues``, over a connection. What goes wrong ends the look, and is said by ``KombuQueues``."""

    def __init__(self, connection: kombu.Connection) -> None:
        self._connection = connection

    def state(self, name: str) -> QueueState | None:
        channel: Any = self._connection.channel()
        try:
            found = channel.queue_declare(name, passive=True)
        except ChannelError as refusal:  # which has closed the channel
            if int(refusal.reply_code or 0) != NOT_FOUND:
                raise
            return None
        channel.close()
        return QueueState(int(found.message_count), int(found.consumer_count or 0))

    def delete(self, name: str) -> int:
        channel: Any = self._connection.channel()
        deleted = channel.queue_delete(name)
        channel.close()
        return int(deleted or 0)
