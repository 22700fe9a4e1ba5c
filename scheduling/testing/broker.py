"""A broker in memory: one queue, in order, confirmed at once; what a worker has not acknowledged is delivered again.

Messages are what RabbitMQ would get, header by header; a publisher that dies on its way leaves what it had sent. Does
not do: queues by tenant, limits, loss.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from scheduling.broker.port import Report
from scheduling.core import message
from scheduling.core.fire import Fire, Outcome, Verdict
from scheduling.failpoints import Point, failpoint

SENDER = "fairbeat@test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What was published of a fire: ``fence`` and all are those of that moment."""

    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    tenant: str
    name: str  # of the job
    fire_id: UUID
    job_id: UUID
    scheduled_for: datetime
    history_days: int
    origin: str
    fence: int
    headers: dict[str, Any]
    body: bytes

    @property
    def facts(self) -> dict[str, Any]:
        """What every signal says of its fire."""
        names = ("fire_id", "job_id", "tenant", "name", "task", "scheduled_for", "origin")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.task}({', '.join(given)}) of {self.tenant}, for {message.instant(self.scheduled_for)}"


class MemoryBroker:
    """The ``Publisher`` of a node in this process, and the queue that workers read."""

    def __init__(self) -> None:
        self.published: list[Message] = []
        self.waiting: deque[Message] = deque()
        self._report: Report | None = None

    def start(self, report: Report) -> None:
        """Begins; each publisher process anew."""
        self._report = report

    def publish(self, fires: Sequence[Fire]) -> None:
        """Takes them all, and reports so."""
        failpoint(Point.PUBLISH_BEFORE)
        messages = [message_of(fire) for fire in fires]
        self.published += messages
        self.waiting += messages
        failpoint(Point.PUBLISH_SENT)
        failpoint(Point.PUBLISH_CONFIRMED)
        if self._report is not None:
            self._report([Outcome(fire, Verdict.CONFIRMED) for fire in fires])

    def stop(self, *, timeout_s: float) -> None:  # noqa: ARG002  (nothing here takes time)
        """Ends."""
        self._report = None

    def return_to_queue(self, unacknowledged: Message) -> None:
        """Its worker is gone: it is the next to be delivered."""
        self.waiting.appendleft(unacknowledged)

    def take(self, fire_id: UUID | None = None) -> Message | None:
        """The first message out of the queue; of this fire, if one is named."""
        for found in self.waiting:
            if fire_id in (None, found.fire_id):
                self.waiting.remove(found)
                return found
        return None

    def last(self, fire_id: UUID) -> Message | None:
        """The last message that was published of this fire."""
        return next((found for found in reversed(self.published) if found.fire_id == fire_id), None)


def message_of(fire: Fire) -> Message:
    """As it is published now."""
    work = fire.work
    return Message(
        task=work.task,
        args=json.loads(work.args),
        kwargs=json.loads(work.kwargs),
        tenant=work.tenant,
        name=work.name,
        fire_id=fire.id,
        job_id=work.job_id,
        scheduled_for=fire.scheduled_for,
        history_days=work.history_days,
        origin=fire.origin,
        fence=fire.fence,
        headers=message.headers(fire, origin=SENDER, ignore_result=True),
        body=message.body(work.args, work.kwargs),
    )
