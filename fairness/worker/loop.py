"""The loop of a worker: to do something in its thread soon, but not now; and to read what came in few system calls.

An event loop reads one message, then looks at all its timers, processes and sockets, and reads the next. amqp reads
each of a message's three frames in three parts, and sets the socket's timeout before and after each frame: fifteen
system calls. Here one takes all that is there, and puts it where amqp looks first for the next frame; amqp is asked for
a frame only when a whole one is there.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from amqp.exceptions import RecoverableConnectionError
from amqp.transport import TCPTransport

AT_ONCE_S = 0.001
FRAMES = 1000  # read at once at most
BYTES = 16384  # received at once
FRAME = 8  # bytes of a frame beside what it carries


def soon(c: Any, function: Callable[[], None]) -> None:
    """Called in the loop's thread; after the loop has looked at its sockets, and sent what it has to send.

    By the timer: what an event loop is told by `call_soon` within itself it does after its next wait, however long.
    """
    if c.hub is not None:
        c.timer.call_after(AT_ONCE_S, function)
    else:
        c.call_soon(function)


def read_ahead(c: Any, messages: int) -> None:
    """From now on RabbitMQ's socket is read so, and a turn takes so many messages, if they are there.

    Called in the loop, which has its reader by then. Under TLS, and without an event loop, it is read as ever.
    """
    if c.hub is None or c.connection is None or c.connection.transport.driver_type != "amqp":
        return
    link = c.connection.connection
    if isinstance(link.transport, TCPTransport):
        c.hub.add_reader(link.sock, _Reading(c.hub, link, messages))


class _Reading:
    """Of one connection; called in the loop when its socket has something, or whole frames were left."""

    def __init__(self, hub: Any, link: Any, messages: int) -> None:
        self._hub, self._link, self._transport, self._messages = hub, link, link.transport, messages
        self._is_due = self._is_alarmed = False

    def __call__(self) -> None:
        """Raises what the connection does."""
        if not self._link.connected:
            raise RecoverableConnectionError("the connection is closed")
        if not _has_frame(self._transport._read_buffer):
            self._receive()
        taken = 0
        while taken < self._messages and _has_frame(self._transport._read_buffer):
            taken += bool(self._link.blocking_read())  # False: the message goes on in the next frame
        if _has_frame(self._transport._read_buffer) and not self._is_due:
            self._is_due = True
            self._hub.call_soon(self._go_on)
            if not self._is_alarmed:
                self._alarm()

    def _alarm(self) -> None:
        """Nothing is in the socket any more that would wake the loop; see `soon`."""
        self._is_alarmed = self._is_due and self._link.connected
        if self._is_alarmed:
            self._hub.timer.call_after(AT_ONCE_S, self._alarm)

    def _go_on(self) -> None:
        self._is_due = False
        if self._link.connected:  # else the loop may have the next connection by now
            self()

    def _receive(self) -> None:
        try:
            came = self._transport.sock.recv(BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            self._transport.connected = False  # as amqp would
            raise
        if came:
            self._transport._read_buffer += came
        else:
            self._link.drain_events()  # it has ended, which amqp says in its own way


def _has_frame(buffer: bytes) -> bool:
    """Type (one byte), channel (two), size (four), so much, and one byte more."""
    return len(buffer) >= FRAME and len(buffer) >= FRAME + int.from_bytes(buffer[3:7])


def read_what_came(c: Any) -> None:
    """All that waits in RabbitMQ's socket: an event loop reads a frame in a turn. Raises what the connection does."""
    if c.hub is not None and c.connection is not None and c.connection.transport.driver_type == "amqp":
        with suppress(socket.timeout, BlockingIOError):
            for _ in range(FRAMES):
                c.connection.drain_events(timeout=0)
