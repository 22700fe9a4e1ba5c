"""What a worker cannot make a task of goes to the broker's dead letters, not to waste, and not round and round.

::

    Celery alone                                            with this
    cannot be decoded            acknowledged: it is gone   rejected
    a header or a body of        the worker ends, and so    rejected
    an impossible type           does the next one
    another tenant's by header   runs                       rejected
    unknown task, wrong eta      rejected                   rejected

*Rejected* is without requeue: RabbitMQ then moves it to the dead letters of its queue. That holds for the tenants'
queues alone: what the user's own queues hold is treated as Celery does it, and so is everything on a broker that has
no dead letters.

Does not do: know what a message asks for; look into those that Celery can read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery.utils.log import get_logger
from kombu.exceptions import ContentDisallowed, DecodeError, SerializerNotInstalled

from fairness.core.message_shape import problem_of
from fairness.queues import QueuePlan

log = get_logger(__name__)

Handler = Callable[[Any], Any]


class Gate:
    """Stands before the task handler of one worker's consumer. ``tenant_header``: where a message names its tenant."""

    def __init__(self, *, tenant_header: str = "") -> None:
        self._tenant_header = tenant_header
        self._plan = QueuePlan()
        self._queues: dict[str, str] = {}  # consumer tag → queue, of the present connection
        self._consumer: Any = None

    def open(self, c: Any, plan: QueuePlan) -> None:
        """For the connection that the consumer has now; what it decodes and handles goes through the gate from here."""
        self._plan = plan
        self._queues.clear()
        if self._consumer is None:
            self._consumer = c
            c.on_decode_error = self._undecodable(c.on_decode_error)
            c.create_task_handler = self._before(c.create_task_handler)
        c.task_consumer.on_decode_error = c.on_decode_error

    def _undecodable(self, otherwise: Callable[[Any, Exception], Any]) -> Callable[[Any, Exception], Any]:
        def on_decode_error(message: Any, error: Exception) -> None:
            if self._owner(message) is None:
                otherwise(message, error)
            else:
                self._reject(message, f"it cannot be decoded: {error}")

        return on_decode_error

    def _before(self, make: Callable[[], Handler]) -> Callable[[], Handler]:
        def create_task_handler() -> Handler:
            handle = make()

            def on_task_received(message: Any) -> Any:
                owner = self._owner(message)
                if owner is None:
                    return handle(message)
                if problem := self._problem(message, owner):
                    return self._reject(message, problem)
                return handle(message)

            return on_task_received

        return create_task_handler

    def _owner(self, message: Any) -> str | None:
        """The tenant of the queue that a message came from; None: it is no tenant's."""
        tag = (message.delivery_info or {}).get("consumer_tag", "")
        if tag not in self._queues:
            tags = self._consumer.task_consumer._active_tags
            self._queues = {tag: name for name, tag in tags.items()}
        owner = self._plan.owner(self._queues.get(tag, ""))
        return owner[0] if owner else None

    def _problem(self, message: Any, owner: str) -> str:
        named = message.headers.get(self._tenant_header, owner) if self._tenant_header else owner
        if named != owner:
            return f"it says that it is {named!r}'s, and came through a queue of {owner!r}"
        try:
            payload = message.payload
        except (DecodeError, ContentDisallowed, SerializerNotInstalled) as error:
            return f"it cannot be decoded: {error}"
        return problem_of(message.headers, payload)

    def _reject(self, message: Any, problem: str) -> None:
        log.error(
            "a message from %s is rejected, %s; headers: %.500r",
            self._queues.get(message.delivery_info["consumer_tag"]),
            problem,
            message.headers,
        )
        message.reject_log_error(log, self._consumer.connection_errors)
