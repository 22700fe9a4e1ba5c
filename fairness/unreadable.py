"""What a worker cannot make a task of goes to the broker's dead letters, not to waste, and not round and round.

::

    Celery alone                                            with this
    cannot be decoded            acknowledged: it is gone   rejected
    a header or a body of        the worker ends, and so    rejected
    an impossible type           does the next one
    another tenant's by header   runs                       rejected
    unknown task, wrong eta      rejected                   rejected

Another tenant's is, in a queue that many share, what names none or one that may not use it.

*Rejected* is without requeue: RabbitMQ then moves it to the dead letters of its queue. That holds for the tenants'
queues alone, shared or not: what the user's own queues hold is treated as Celery does it, and so is everything on a
broker that has no dead letters.

Does not do: know what a message asks for; look into those that Celery can read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery.utils.log import get_logger
from kombu.exceptions import ContentDisallowed, DecodeError, SerializerNotInstalled

from fairness.core.message_shape import problem_of
from fairness.queues import QueuePlan

KEPT = 10_000  # owners that are not asked for again

log = get_logger(__name__)

Handler = Callable[[Any], Any]


class Gate:
    """Stands before the task handler of one worker's consumer. ``tenant_header``: where a message names its tenant."""

    def __init__(self, *, tenant_header: str = "") -> None:
        self._tenant_header = tenant_header
        self._plan = QueuePlan()
        self._queues: dict[str, str | None] = {}  # consumer tag → queue of ours, of the present connection
        self._owners: dict[tuple[str, str], str | None] = {}  # queue, whom a message names → whose it is
        self._consumer: Any = None

    def open(self, c: Any, plan: QueuePlan) -> None:
        """For the connection that the consumer has now; what it decodes and handles goes through the gate from here."""
        self._plan = plan
        self._queues.clear()
        self._owners.clear()
        if self._consumer is None:
            self._consumer = c
            c.on_decode_error = self._undecodable(c.on_decode_error)
            c.create_task_handler = self._before(c.create_task_handler)
        c.task_consumer.on_decode_error = c.on_decode_error

    def _undecodable(self, otherwise: Callable[[Any, Exception], Any]) -> Callable[[Any, Exception], Any]:
        def on_decode_error(message: Any, error: Exception) -> None:
            if self._queue(message) is None:
                otherwise(message, error)
            else:
                self._reject(message, f"it cannot be decoded: {error}")

        return on_decode_error

    def _before(self, make: Callable[[], Handler]) -> Callable[[], Handler]:
        def create_task_handler() -> Handler:
            handle = make()

            def on_task_received(message: Any) -> Any:
                queue = self._queue(message)
                if queue is None:
                    return handle(message)
                if problem := self._problem(message, queue):
                    return self._reject(message, problem)
                return handle(message)

            return on_task_received

        return create_task_handler

    def _queue(self, message: Any) -> str | None:
        """The queue that a message came from; None: it is no tenant's."""
        info = message.delivery_info or {}
        tag = info.get("consumer_tag")
        if tag is None:  # it was asked for, not sent to a consumer; our queues are bound by their names alone
            name = str(info.get("routing_key", ""))
            return name if self._plan.lane(name) is not None else None
        if tag not in self._queues:
            tags = self._consumer.task_consumer._active_tags
            self._queues = {tag: name if self._plan.lane(name) else None for name, tag in tags.items()}
        return self._queues.get(tag)

    def _problem(self, message: Any, queue: str) -> str:
        if problem := self._forgery(message, queue):
            return problem
        try:
            payload = message.payload
        except (DecodeError, ContentDisallowed, SerializerNotInstalled) as error:
            return f"it cannot be decoded: {error}"
        return problem_of(message.headers, payload)

    def _forgery(self, message: Any, queue: str) -> str:
        """A message of a tenant's own queue need not say whose it is."""
        if not self._tenant_header:
            return ""
        named = message.headers.get(self._tenant_header)
        owner = self._owner(queue, named)
        if self._tenant_header in message.headers:
            is_its = owner is not None and named == owner
            return "" if is_its else f"it says that it is {named!r}'s, and came through {queue!r}"
        return "" if owner is not None else f"it does not say whose it is, and came through {queue!r}, which many share"

    def _owner(self, queue: str, named: object) -> str | None:
        if not isinstance(named, str):
            return self._plan.owner_of(queue, None)
        if (queue, named) not in self._owners:
            if len(self._owners) >= KEPT:
                self._owners.clear()
            self._owners[queue, named] = self._plan.owner_of(queue, named)
        return self._owners[queue, named]

    def _reject(self, message: Any, problem: str) -> None:
        log.error(
            "a message from %s is rejected, %s; headers: %.500r",
            self._queue(message),
            problem,
            message.headers,
        )
        message.reject_log_error(log, self._consumer.connection_errors)
