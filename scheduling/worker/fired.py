"""The fire that a Celery request carries in its headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4, uuid5

from scheduling.core import message
from scheduling.core.errors import InvalidField
from scheduling.store.ledger_port import Delivery

SMALLINT_MAX, INTEGER_MAX = 2**15 - 1, 2**31 - 1  # of the columns
HOLDER = "fb_holder"  # written by the worker that received the message, and never sent: request.py


@dataclass(frozen=True, slots=True)
class Fired:
    """One delivery, and what the message says of its fire besides."""

    delivery: Delivery
    name: str  # of the job; may be empty
    origin: str

    @property
    def tenant(self) -> str:
        """The slug, as the message says it."""
        return self.delivery.tenant


def fired(task_id: str | None, headers: Mapping[str, Any] | None, *, pid: int) -> Fired | None:
    """The fire of a message in the process ``pid``; None where it carries none (someone called ``delay()``).

    A delivery has a holder of its own in each process: a pool may give the same delivery to two, one after the other
    (Celery 5.7 does where it finds the first dead before it has read that the task was accepted), and the second must
    not take for its own what the first began.

    Raises InvalidField for headers that name a fire and cannot be read.
    """
    if not headers or message.FENCE not in headers:
        return None
    try:
        delivery = Delivery(
            fire_id=UUID(task_id),
            job_id=UUID(headers[message.JOB]),
            tenant=_text(headers[message.TENANT]),
            scheduled_for=_aware(datetime.fromisoformat(headers[message.SCHEDULED_FOR])),
            history_days=_within(headers[message.KEEP], SMALLINT_MAX),
            fence=_within(headers[message.FENCE], INTEGER_MAX),
            holder=uuid5(UUID(headers[HOLDER]), str(pid)) if HOLDER in headers else uuid4(),
        )
        return Fired(delivery, _text(headers.get(message.JOB_NAME) or ""), _text(headers[message.ORIGIN]))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as problem:  # UUID(7) lacks an attribute
        raise InvalidField("headers", dict(headers), f"name no fire that can be read: {problem!r}") from problem


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\x00" in value:
        raise ValueError(f"{value!r} is no text that Postgres has")
    return value


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no offset")
    return moment


def _within(value: Any, highest: int) -> int:
    number = int(value)
    if not 0 < number <= highest:
        raise ValueError(f"{number} is not within 1 to {highest}")
    return number
