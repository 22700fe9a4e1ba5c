"""Looks whether queues hold messages that wait, for an owner who suspects that some of his are gone.

Connects for each look: there is one only while something seems to be lost, and then one in some seconds. A queue is
declared passively, which changes nothing and tells how many messages wait in it; those that a worker has prefetched are
not among them. A broker answers for a queue that is missing by closing the channel: the next queue gets another.

Any transport of kombu will do. Does not do: take, declare or purge anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kombu
from amqp.exceptions import ChannelError
from kombu.exceptions import KombuError

from fairness.queues import QueueSpec
from scheduling.broker.port import BrokerSilent
from scheduling.core.fire import Fire
from scheduling.core.gates import Queue, lane_of

CONNECT_TIMEOUT_S = 5.0
NOT_FOUND = 404


class KombuQueueWatch:
    """The ``QueueWatch`` of every broker that kombu speaks to. ``tls`` is Celery's ``broker_use_ssl``."""

    def __init__(
        self,
        url: str,
        *,
        queue_for: Callable[[Fire], QueueSpec],
        transport_options: Mapping[str, Any] | None = None,
        tls: Any = None,
    ) -> None:
        self._queue_for = queue_for
        self._address = kombu.Connection(
            url,
            connect_timeout=CONNECT_TIMEOUT_S,
            transport_options=dict(transport_options or {}),
            **({"ssl": tls} if tls else {}),
        )

    def empty(self, fires: Sequence[Fire]) -> frozenset[Queue]:
        with self._address.clone() as connection:
            failures: tuple[type[BaseException], ...] = (
                *connection.connection_errors,
                *connection.channel_errors,
                KombuError,
                OSError,
            )
            try:
                connection.ensure_connection(max_retries=1, interval_start=0)
                return frozenset(lane_of(fire) for fire in fires if self._is_empty(connection, fire))
            except failures as problem:
                raise BrokerSilent(f"the broker does not tell what waits in its queues: {problem}") from problem

    def _is_empty(self, connection: kombu.Connection, fire: Fire) -> bool:
        channel: Any = connection.channel()
        try:
            waits = channel.queue_declare(self._queue_for(fire).name, passive=True).message_count
        except ChannelError as refusal:
            if int(refusal.reply_code or 0) != NOT_FOUND:
                raise
            return True
        channel.close()
        return bool(waits == 0)
