"""The demo's queues on a broker that it may share: emptied before it begins, removed when it has ended.

Their prefix tells the database, so that two demos on one broker do not take each other's messages, and the next demo on
this database finds what a killed one left.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import kombu
from kombu.exceptions import OperationalError

from fairness.queues import QueuePlan
from project.environment.urls import is_amqp, masked
from scheduling.core.errors import ServiceUnreachable
from scheduling.core.fire import Lane


def prefix_for(database_url: str) -> str:
    return f"fairbeat-demo-{sha256(database_url.encode()).hexdigest()[:6]}"


def default_queue(prefix: str) -> str:
    """Where plain ``apply_async`` calls go."""
    return f"{prefix}.default"


def of_tenants(plan: QueuePlan, slugs: Iterable[str]) -> list[str]:
    """The queues of these tenants, in all lanes."""
    return [plan.queue_name(slug, lane) for slug in slugs for lane in Lane]


def remove(url: str, plan: QueuePlan, slugs: Iterable[str], *, also: Iterable[str] = ()) -> None:
    """Delete the queues of these tenants with all that is in them, those of these names, and the dead letters; missing
    ones do not matter.

    Raises ServiceUnreachable.
    """
    names = [default_queue(plan.prefix), *(plan.dead_letters(lane).queue for lane in Lane), *of_tenants(plan, slugs)]
    names += set(also) - set(names)
    try:
        with kombu.Connection(url) as connection:
            channel: Any = connection.default_channel
            for name in names:
                if is_amqp(url):
                    channel.queue_delete(name)
                else:
                    channel.queue_purge(name)
            if is_amqp(url):
                channel.exchange_delete(plan.dead_letters(Lane.BULK).exchange)
    except (OperationalError, OSError) as problem:
        raise ServiceUnreachable(f"{masked(url)}: the demo's queues could not be removed: {problem}") from problem
