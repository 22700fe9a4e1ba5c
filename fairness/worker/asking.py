"""Takes one message from a queue when asked: `basic.get`, without waiting for the answer.

On a channel of its own, so that a queue that is gone costs these questions alone. The broker answers in the order in
which it was asked; until then the worker does something else, however far the broker is. What comes goes Celery's
way: acknowledged as it is, seen by `inspect`, refused where it cannot be read.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import kombu
from amqp import spec
from amqp.exceptions import ChannelError, RecoverableConnectionError, error_for_code
from celery.utils.log import get_logger

T = TypeVar("T")

LATEST = 0.1  # what the latest round trip counts for

log = get_logger(__name__)


class Asking(Generic[T]):
    """``on_message`` is called with the ticket before its message is handled, ``on_end`` afterwards, or when there is
    none: with the ticket, and whether its queue was empty.
    """

    def __init__(self, c: Any, *, on_message: Callable[[T, Any], None], on_end: Callable[[T, bool], None]) -> None:
        self._c = c
        self._on_message, self._on_end = on_message, on_end
        self._channel: Any = None
        self._receiver: Any = None
        self._pending: deque[tuple[T, float]] = deque()
        self._is_opening = False
        self.round_trip_s = 0.0

    def connected(self) -> None:
        """No answer of the connection before will come."""
        self._channel = None
        self._pending.clear()

    def open(self) -> None:
        """Raises what the connection does, and RecoverableConnectionError while there is none."""
        if self._channel is not None:
            return
        if self._c.connection is None or self._is_opening:
            raise RecoverableConnectionError("there is no channel yet")
        self._is_opening = True
        try:
            channel = self._c.connection.channel()  # which handles what else comes until it is open
        finally:
            self._is_opening = False
        callbacks = channel._callbacks
        callbacks[spec.Basic.GetOk] = self._on_get_ok
        callbacks[spec.Basic.GetEmpty] = self._on_get_empty
        callbacks[spec.Channel.Close] = self._on_close
        self._channel = channel
        self._receiver = kombu.Consumer(channel, accept=self._c.task_consumer.accept, queues=[])

    def ask(self, ticket: T, queue: str) -> None:
        """Send the question. A connection that breaks ends all tickets: Celery notices that itself."""
        try:
            self.open()
            self._channel.send_method(spec.Basic.Get, "Bsb", (0, queue, False))
        except self._c.connection_errors as error:
            log.debug("the broker cannot be asked for a message of %s: %s", queue, error)
            self._on_end(ticket, True)
        else:
            self._pending.append((ticket, time.monotonic()))

    def _on_get_ok(self, *values: Any) -> None:
        ticket = self._answered()
        raw = self._channel._on_get_ok(*values)
        receiver, task_consumer = self._receiver, self._c.task_consumer
        if task_consumer is None:  # the worker has ended; the message goes back with its connection
            return

        def on_message(message: Any) -> Any:
            self._on_message(ticket, message)
            return task_consumer.on_message(message)

        receiver.on_message, receiver.on_decode_error = on_message, task_consumer.on_decode_error
        try:
            receiver._receive_callback(raw)
        finally:
            self._on_end(ticket, False)

    def _on_get_empty(self, *_: Any) -> None:
        ticket = self._answered()
        self._on_end(ticket, True)

    def _answered(self) -> T:
        ticket, asked_at = self._pending.popleft()
        took_s = time.monotonic() - asked_at
        self.round_trip_s += (LATEST if self.round_trip_s else 1.0) * (took_s - self.round_trip_s)
        return ticket

    def _on_close(self, code: int, text: str, class_id: int, method_id: int) -> None:
        """The broker refuses a question, and with it all that are asked; what was taken before is delivered again.

        The channel is given up, and not opened anew: it would count its messages from one again, and who runs one of
        before would in the end acknowledge another one.
        """
        log.warning(
            "the broker refuses to be asked for a message: %s",
            error_for_code(code, text, (class_id, method_id), ChannelError),
        )
        channel, self._channel = self._channel, None
        channel.send_method(spec.Channel.CloseOk)
        channel.collect()
        pending, self._pending = self._pending, deque()
        for ticket, _ in pending:
            self._on_end(ticket, True)
