"""The fire that a Celery request carries in its headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from scheduling.core import message
from scheduling.core.errors import InvalidField
from scheduling.store.ledger_port import Delivery


@dataclass(frozen=True, slots=True)
class Fired:
    """One delivery, and what the message says of its fire besides."""

    delivery: Delivery
    tenant: str
    name: str  # of the job; may be empty
    origin: str


def fired(task_id: str | None, headers: Mapping[str, Any] | None) -> Fired | None:
    """The fire of a message; None where it carries none (someone called ``delay()``).

    Raises InvalidField for headers that name a fire and cannot be read.
    """
    if not headers or message.FENCE not in headers:
        return None
    try:
        delivery = Delivery(
            fire_id=UUID(task_id),
            job_id=UUID(headers[message.JOB]),
            tenant=headers[message.TENANT],
            scheduled_for=datetime.fromisoformat(headers[message.SCHEDULED_FOR]),
            history_days=int(headers[message.KEEP]),
            fence=int(headers[message.FENCE]),
            holder=uuid4(),
        )
        return Fired(delivery, headers[message.TENANT], headers.get(message.JOB_NAME) or "", headers[message.ORIGIN])
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidField("headers", dict(headers), f"name no fire that can be read: {problem!r}") from problem
