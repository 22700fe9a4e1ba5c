"""The demo's queues on a broker that it may share: emptied before it begins, removed when it has ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import kombu

from fairness.queues import QueuePlan
from project.environment.urls import is_amqp
from scheduling.core.fire import Lane

PREFIX = "fairbeat-demo"
DEFAULT_QUEUE = f"{PREFIX}.default"


def remove(url: str, slugs: Iterable[str]) -> None:
    """Delete the queues of these tenants with all that is in them, and the dead letters; missing ones do not matter."""
    plan = QueuePlan(prefix=PREFIX)
    with kombu.Connection(url) as connection:
        channel: Any = connection.default_channel
        for name in _names(plan, slugs):
            if is_amqp(url):
                channel.queue_delete(name)
            else:
                channel.queue_purge(name)
        if is_amqp(url):
            channel.exchange_delete(plan.dead_letters(Lane.BULK).exchange)


def _names(plan: QueuePlan, slugs: Iterable[str]) -> Iterator[str]:
    yield DEFAULT_QUEUE
    for lane in Lane:
        yield plan.dead_letters(lane).queue
    for slug in slugs:
        for lane in Lane:
            yield plan.queue_name(slug, lane)
