"""Looks whether queues hold messages that wait, for an owner who suspects that some of his are gone.

Connects for each look: there is one only while something seems to be lost, and then one in some seconds. A queue is
declared passively, which changes nothing and tells how many messages wait in it; those that a worker has prefetched are
not among them. A broker answers for a queue that is missing by closing the channel: the next queue gets another.

A tenant's lane may have messages in several queues. One that many share holds others' as well, and while any message
waits there nobody can say that ours is gone: then it is looked again.

Any transport of kombu will do. Does not do: take, declare or purge anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import kombu
from amqp.exceptions import ChannelError
from kombu.exceptions import KombuError

from scheduling.broker.port import BrokerSilent
from scheduling.core.fire import Fire
from scheduling.core.gates import Queue, lane_of

CONNECT_TIMEOUT_S = 5.0
NOT_FOUND = 404


class KombuQueueWatch:
    """The ``QueueWatch`` of every broker that kombu speaks to. ``queues_of``: the names of all queues from which
    workers may get a message of this fire. ``tls`` is Celery's ``broker_use_ssl``.
    """

    def __init__(
        self,
        url: str,
        *,
        queues_of: Callable[[Fire], Collection[str]],
        transport_options: Mapping[str, Any] | None = None,
        tls: Any = None,
    ) -> None:
        self._queues_of = queues_of
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
                asked = {lane_of(fire): self._queues_of(fire) for fire in fires}
                names = dict.fromkeys(name for queues in asked.values() for name in queues)  # shared ones once
                empty = {name for name in names if _is_empty(connection, name)}
                return frozenset(lane for lane, queues in asked.items() if empty.issuperset(queues))
            except failures as problem:
                raise BrokerSilent(f"the broker does not tell what waits in its queues: {problem}") from problem


def _is_empty(connection: kombu.Connection, name: str) -> bool:
    channel: Any = connection.channel()
    try:
        waits = channel.queue_declare(name, passive=True).message_count
    except ChannelError as refusal:
        if int(refusal.reply_code or 0) != NOT_FOUND:
            raise
        return True
    channel.close()
    return bool(waits == 0)
