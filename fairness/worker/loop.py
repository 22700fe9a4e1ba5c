"""To do something soon, but not now, in the thread of a worker's loop."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

AT_ONCE_S = 0.001
FRAMES = 1000  # read at once at most


def soon(c: Any, function: Callable[[], None]) -> None:
    """Called in the loop's thread; after the loop has looked at its sockets, and sent what it has to send.

    By the timer: what an event loop is told by `call_soon` within itself it does after its next wait, however long.
    """
    if c.hub is not None:
        c.timer.call_after(AT_ONCE_S, function)
    else:
        c.call_soon(function)


def read_what_came(c: Any) -> None:
    """All that waits in RabbitMQ's socket: an event loop reads a frame in a turn. Raises what the connection does."""
    if c.hub is not None and c.connection is not None and c.connection.transport.driver_type == "amqp":
        with suppress(socket.timeout, BlockingIOError):
            for _ in range(FRAMES):
                c.connection.drain_events(timeout=0)
