"""Whether a message came through a queue that its tenant uses: one that did not is forged, whatever fire it names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from fairness.queues import QueuePlan
from scheduling.core.errors import InvalidField


def refuse_foreign_queue(tenant: str, delivery_info: Mapping[str, Any]) -> None:
    """Raises InvalidField. A queue that is not named as ours is none to judge, nor is no queue at all."""
    queue, plan = delivery_info.get("routing_key"), _plan()
    if isinstance(queue, str) and plan.lane(queue) is not None and plan.owner_of(queue, tenant) != tenant:
        raise InvalidField("queue", queue, f"is not that of the tenant {tenant!r}, whom the message names")


@cache
def _plan() -> QueuePlan:
    """The names of this deployment's queues."""
    from django.conf import settings

    from scheduling.conf import scheduling_settings

    return QueuePlan(prefix=scheduling_settings(settings).QUEUE_PREFIX)
