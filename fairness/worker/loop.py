"""The loop of a worker: to do something in its thread soon, but not now; and to read more than a message in a turn.

An event loop reads one message, then looks at all its timers, processes and sockets, and reads the next. Where messages
come quickly that is a good part of its time; and since what has ended is acknowledged once a turn, the broker, too, is
told of one end at a time, and answers each with one message.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from amqp.exceptions import RecoverableConnectionError

AT_ONCE_S = 0.001
FRAMES = 1000  # read at once at most
MESSAGES = 16  # in one turn: none of the rest waits for more


def soon(c: Any, function: Callable[[], None]) -> None:
    """Called in the loop's thread; after the loop has looked at its sockets, and sent what it has to send.

    By the timer: what an event loop is told by `call_soon` within itself it does after its next wait, however long.
    """
    if c.hub is not None:
        c.timer.call_after(AT_ONCE_S, function)
    else:
        c.call_soon(function)


def read_several(c: Any) -> None:
    """From now on a turn reads so many, if they are there. Called in the loop, which has its reader by then."""
    if c.hub is None or c.connection is None or c.connection.transport.driver_type != "amqp":
        return
    hub, link = c.hub, c.connection.connection

    def read() -> None:
        if not link.connected:
            raise RecoverableConnectionError("the connection is closed")
        with suppress(TimeoutError, BlockingIOError):  # no more is there
            for _ in range(MESSAGES):
                link.drain_events(timeout=0)
            hub.call_soon(read)

    hub.add_reader(link.sock, read)


def read_what_came(c: Any) -> None:
    """All that waits in RabbitMQ's socket: an event loop reads a frame in a turn. Raises what the connection does."""
    if c.hub is not None and c.connection is not None and c.connection.transport.driver_type == "amqp":
        with suppress(socket.timeout, BlockingIOError):
            for _ in range(FRAMES):
                c.connection.drain_events(timeout=0)
