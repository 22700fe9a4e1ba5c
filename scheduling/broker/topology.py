"""What a publisher has declared on its present connection, and what it must still declare.

Declarations go one at a time over a channel of their own, so that a refusal (the broker closes that channel) says
which one it was and does not touch the messages in flight::

    want(queue) ──▶ waiting ──▶ its steps, each answered by an -ok ──▶ declared
                                   │ channel closed by the broker
                                   ▼
                                refused, for REFUSED_S; the channel is opened anew

The steps of a queue: dead-letter exchange, dead-letter queue and their binding (once per connection), then the queue
itself. Pure: frames out, answers in, the time is given.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from amqp.serialization import dumps

from fairness.queues import QueueSpec
from scheduling.broker.amqp_frames import method

REFUSED_S = 10.0  # before a refused queue is tried again: an operator may have removed what was in its way

_CHANNEL_OPEN, _CHANNEL_CLOSE_OK = (20, 10), (20, 41)
_EXCHANGE_DECLARE, _QUEUE_DECLARE, _QUEUE_BIND = (40, 10), (50, 10), (50, 20)
_DURABLE = (False, True, False, False, False)  # passive, durable, then auto-delete and others by method


class Topology:
    """The declarations of one connection, on ``channel`` (which is open at the start)."""

    def __init__(self, channel: int) -> None:
        self.declared: set[str] = set()
        self._channel = channel
        self._channel_is_open = True
        self._waiting: deque[QueueSpec] = deque()
        self._wanted: set[str] = set()  # names of those that are waiting or current
        self._refused: dict[str, float] = {}  # name → monotonic second from which it may be tried again
        self._current: QueueSpec | None = None
        self._steps: deque[tuple[str, bytes]] = deque()
        self._asked: str | None = None  # the step whose answer is awaited
        self.asked_at_s = math.inf  # since when; infinite while none is
        self._done: set[str] = set()  # steps that need not be repeated on this connection

    def want(self, spec: QueueSpec) -> None:
        """``spec`` is to be declared; nothing happens if that is already under way."""
        if spec.name not in self._wanted:
            self._wanted.add(spec.name)
            self._waiting.append(spec)

    def forget(self, name: str) -> None:
        """The queue turned out to be missing: with it, its dead letters may be."""
        self.declared.discard(name)
        self._done.clear()

    def is_refused(self, name: str, now_s: float) -> bool:
        """Whether the broker refused the queue a short while ago."""
        if self._refused and name in self._refused:
            if now_s < self._refused[name]:
                return True
            del self._refused[name]
        return False

    def next_frame(self, now_s: float) -> bytes | None:
        """What to send now; None while an answer is awaited, or nothing is wanted."""
        if self._asked is not None or not self._channel_is_open:
            return None
        if self._current is None:
            if not self._waiting:
                return None
            self._current = self._waiting.popleft()
            self._steps.extend(s for s in _steps(self._current, self._channel) if s[0] not in self._done)
        self._asked, frame = self._steps.popleft()
        self.asked_at_s = now_s
        return frame

    def ask_from(self, since_s: float) -> None:
        """An awaited answer, if there is one, is awaited since then: a broker that is blocked does not answer."""
        if self._asked is not None or not self._channel_is_open:
            self.asked_at_s = since_s

    def answered(self) -> str | None:
        """The awaited answer came; the name of the queue that is declared by it, if it was the last step."""
        self.asked_at_s = math.inf
        if not self._channel_is_open:
            self._channel_is_open = True
            return None
        if self._asked is None or self._current is None:
            return None
        step, self._asked = self._asked, None
        if self._steps:
            self._done.add(step)
            return None
        name = self._finish()
        self.declared.add(name)
        return name

    def channel_closed(self, now_s: float) -> tuple[str | None, bytes]:
        """The broker refused the current step: (the queue that cannot be declared, the frames that open the channel
        anew)."""
        self._channel_is_open, self._asked, self.asked_at_s = False, None, now_s
        frames = method(self._channel, _CHANNEL_CLOSE_OK) + method(self._channel, _CHANNEL_OPEN, dumps("s", ("",)))
        if self._current is None:
            return None, frames
        name = self._finish()
        self._refused[name] = now_s + REFUSED_S
        return name, frames

    def _finish(self) -> str:
        assert self._current is not None
        name, self._current = self._current.name, None
        self._steps.clear()
        self._wanted.discard(name)
        return name


def _steps(spec: QueueSpec, channel: int) -> list[tuple[str, bytes]]:
    steps = []
    if dead := spec.dead_letters:
        exchange = dumps("BssbbbbbF", (0, dead.exchange, "direct", *_DURABLE, {}))
        binding = dumps("BsssbF", (0, dead.queue, dead.exchange, dead.routing_key, False, {}))
        steps = [
            (f"exchange {dead.exchange}", method(channel, _EXCHANGE_DECLARE, exchange)),
            (f"queue {dead.queue}", _declare(channel, dead.queue, dead.arguments)),
            (f"binding {dead.queue}", method(channel, _QUEUE_BIND, binding)),
        ]
    return [*steps, (f"queue {spec.name}", _declare(channel, spec.name, spec.arguments))]


def _declare(channel: int, name: str, arguments: Mapping[str, Any]) -> bytes:
    return method(channel, _QUEUE_DECLARE, dumps("BsbbbbbF", (0, name, *_DURABLE, dict(arguments))))
