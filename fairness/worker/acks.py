"""Acknowledges together what ends at about the same time, and after the slots that it leaves have been filled.

Celery sends each acknowledgement by itself, before it gives the next task to the process that is free. Where thousands
of tasks end in a second that is a tenth of the time of the worker, and half of that of RabbitMQ, which takes each by
itself, too, and answers it with one message. Here one waits for a millisecond, and all that have come by then go
together, in one packet where the system can hold it back (Linux).

An acknowledgement that waits is lost with the worker, and its message comes again, as at any moment between a task's
end and its acknowledgement. Nothing waits once the consumer stops: what a pool ends after that is Celery's to send.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

TOGETHER_S = 0.001
CORK = getattr(socket, "TCP_CORK", None)  # Linux


class Acks:
    """In the place of a consumer's ``call_soon_ack``, which its task handlers are made with; for an event loop."""

    def __init__(self, c: Any) -> None:
        self._c = c
        self._celerys: Callable[..., Any] = c.call_soon_ack
        self._waiting: deque[Callable[[], Any]] = deque()
        self._is_due = self._is_open = False
        self._link: Any = None
        self._loop = 0
        c.call_soon_ack = self

    def connected(self) -> None:
        """Called in the loop's thread."""
        self._link = self._c.connection.connection
        self._loop = threading.get_ident()
        self._is_due, self._is_open = False, True  # a timer of the connection before only sends early what waits

    def stop(self) -> None:
        """Send what waits; called in the loop's thread, while the connection is there, or is known to be lost."""
        self._is_open = False
        self._send()

    def __call__(self, send: Callable[..., Any], *args: Any, **options: Any) -> None:
        """Of a message, in whatever thread."""
        self._waiting.append(partial(send, *args, **options))
        if self._is_open:  # asked after that: `stop` sends what was appended before it
            self._send_later()
        else:
            self._celerys(self._send)

    def _send_later(self) -> None:
        if not self._is_due:
            self._is_due = True
            if threading.get_ident() == self._loop:
                self._c.timer.call_after(TOGETHER_S, self._send)
            else:  # the timer is the loop's
                self._c.hub.call_soon(self._c.timer.call_after, TOGETHER_S, self._send)

    def _send(self) -> None:
        self._is_due = False  # first: who comes in between goes now, or asks for the next time
        try:
            with self._one_packet() if len(self._waiting) > 1 else nullcontext():
                while self._waiting:
                    self._waiting.popleft()()
        finally:
            if self._waiting:  # one of them could not be sent, which is raised
                self._send_later()

    @contextmanager
    def _one_packet(self) -> Iterator[None]:
        """What is written to RabbitMQ's socket meanwhile goes out at the end."""
        if CORK is None or self._link is None or not self._link.connected:
            yield
            return
        sock = self._link.sock
        sock.setsockopt(socket.IPPROTO_TCP, CORK, 1)
        try:
            yield
        finally:
            with suppress(OSError):  # it was lost meanwhile, which the loop will see
                sock.setsockopt(socket.IPPROTO_TCP, CORK, 0)
