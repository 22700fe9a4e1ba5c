"""The queues that a worker consumes: begun, changed and ended in small steps between which its loop goes on.

Each is declared first, with the publisher's arguments and its dead letters, on a channel that may break: a queue that
the broker refuses costs that queue alone, and is tried again. A consumer's prefetch is fixed when it begins, so a
changed one means to cancel and to consume anew; the broker then counts from nothing, and ignores what it has delivered
already and what is not acknowledged yet: for a while the worker may hold both. Hence seldom.

Queues whose messages are asked for have no consumer; they are entered as if they had one, so that Celery neither
consumes them itself, nor forgets them in `inspect active_queues`.

What a person cancels by remote control stays so until it is added again, or the worker starts anew.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from celery.utils.log import get_logger
from kombu import Exchange, Queue

from fairness.core.prefetch import ASKED
from fairness.queues import QueuePlan
from fairness.worker.loop import soon

REFUSED_S = 30.0  # before a queue that the broker refused is tried again
SLICE_S = 0.05
ASK_TAG = "fairness.ask."  # in the place of a consumer tag

log = get_logger(__name__)


class Consumers:
    """Of one connection at a time. ``applied(queue, ahead)`` is told what is consumed, and how many ahead."""

    def __init__(self, c: Any, *, applied: Callable[[str, int], None], lost: Callable[[str], None]) -> None:
        self._c, self._applied, self._lost = c, applied, lost
        self._plan = QueuePlan()
        self._is_amqp = False
        self._consumed: dict[str, int] = {}  # messages ahead
        self._declared: set[str] = set()
        self._declined: set[str] = set()  # by remote control
        self._refused_until: dict[str, float] = {}  # monotonic seconds
        self._steps: deque[Callable[[], None]] = deque()
        self._channel: Any = None  # for what may be refused
        self._add_task_queue, self._cancel_task_queue = c.add_task_queue, c.cancel_task_queue
        c.add_task_queue, c.cancel_task_queue = self._add_by_hand, self._cancel_by_hand

    def connected(self, plan: QueuePlan) -> None:
        self._plan = plan
        self._is_amqp = self._c.connection.transport.driver_type == "amqp"
        self._channel = None
        self._consumed.clear()
        self._declared.clear()
        self._refused_until.clear()
        self._steps.clear()

    def disconnected(self) -> None:
        """Celery cancels the consumers; those that are none it need not."""
        self._steps.clear()
        tags = self._c.task_consumer._active_tags if self._c.task_consumer is not None else {}
        for name in [name for name, ahead in self._consumed.items() if ahead == ASKED]:
            tags.pop(name, None)

    @property
    def is_busy(self) -> bool:
        """Steps are left to do."""
        return bool(self._steps)

    def wanted(self, names: Collection[str]) -> set[str]:
        """Those of these names that may be consumed now."""
        now = time.monotonic()
        return {name for name in names if name not in self._declined and now >= self._refused_until.get(name, 0.0)}

    def end_others(self, wanted: Collection[str]) -> None:
        """Soon."""
        for name in self._consumed.keys() - set(wanted):
            self._soon(self._end, name, "it is not in use any more")
        for name in self._unheard():
            self._soon(self._end, name, "the broker no longer gives it")

    def apply(self, changes: Mapping[str, int]) -> None:
        """Consume these so, soon; those with the same number one after the other."""
        for name, ahead in sorted(changes.items(), key=lambda change: change[1]):
            self._soon(self._change, name, ahead)

    # -- steps --------------------------------------------------------------------------------------------------

    def _soon(self, step: Callable[..., None], *args: Any) -> None:
        if not self._steps:
            soon(self._c, self._do_some)
        self._steps.append(lambda: step(*args))

    def _do_some(self) -> None:
        """As many as there is time for; a worker that is ending consumes nothing more."""
        until = time.monotonic() + SLICE_S
        while self._steps:
            if self._c.task_consumer is None or not self._c.pool.active:
                self._steps.clear()
                return
            self._steps.popleft()()
            if time.monotonic() >= until:
                break
        if self._is_amqp:  # for what is consumed after us
            self._c.task_consumer.qos(prefetch_count=self._c.initial_prefetch_count, apply_global=False)
        if self._steps:
            soon(self._c, self._do_some)
        elif self._channel is not None:
            channel, self._channel = self._channel, None
            channel.close()

    def _change(self, name: str, ahead: int) -> None:
        queue = self._queue(name)
        if queue is None:
            self._lost(name)
            return
        before = self._consumed.get(name)
        consumer = self._c.task_consumer
        if before is not None:
            self._forget(name)
        consumer.add_queue(queue)
        if ahead == ASKED:
            consumer._active_tags[name] = ASK_TAG + name
        else:
            if self._is_amqp:
                consumer.qos(prefetch_count=ahead, apply_global=False)
            consumer.consume()
        self._consumed[name] = ahead
        self._applied(name, ahead)
        if ahead == ASKED:
            log.info("asking %s for each message", name)
        else:
            log.info("consuming %s, prefetch %s", name, ahead if self._is_amqp else "shared")

    def _end(self, name: str, reason: str) -> None:
        if name in self._consumed:
            self._forget(name)
            self._declared.discard(name)  # should it come back, it may have been deleted meanwhile
            self._lost(name)
            log.info("no longer consuming %s: %s", name, reason)

    def _forget(self, name: str) -> None:
        consumer = self._c.task_consumer
        if self._consumed.pop(name) == ASKED:
            consumer._active_tags.pop(name, None)
            consumer._queues.pop(name, None)
        else:
            consumer.cancel_by_queue(name)

    def _unheard(self) -> list[str]:
        """Queues whose consumer the broker has cancelled, and Celery has not noticed: its first look at a connection
        drops whatever is raised there, a cancelled consumer, too.
        """
        if not self._is_amqp:
            return []
        tags, living = self._c.task_consumer._active_tags, self._c.task_consumer.channel.callbacks
        unheard = [name for name, ahead in self._consumed.items() if ahead != ASKED and tags.get(name) not in living]
        self._declared.difference_update(unheard)
        return unheard

    # -- declaring ----------------------------------------------------------------------------------------------

    def _queue(self, name: str) -> Queue | None:
        """The queue, once it exists with its dead letters; None where the broker refuses it."""
        if not self._is_amqp:
            return Queue(name, exchange=Exchange(""), routing_key=name, durable=True)
        if name not in self._declared and not self._declare(name):
            return None
        return Queue(name, Exchange(""), name, no_declare=True)

    def _declare(self, name: str) -> bool:
        """On a channel of its own: a refusal closes the channel, and with it all its consumers."""
        if self._channel is None:
            self._channel = self._c.connection.channel()
        try:
            self._declare_on(self._channel, name)
        except self._c.connection.channel_errors as error:
            log.error("queue %s cannot be consumed, the broker refuses it: %s", name, error)
            self._refused_until[name] = time.monotonic() + REFUSED_S
            self._channel = None
            return False
        self._declared.add(name)
        return True

    def _declare_on(self, channel: Any, name: str) -> None:
        spec = self._plan.spec(name)
        if spec is None:  # another release made it: it must be there
            channel.queue_declare(name, passive=True)
            return
        if (dead := spec.dead_letters) and dead.queue not in self._declared:
            exchange = Exchange(dead.exchange, "direct", durable=True)
            Queue(dead.queue, exchange, dead.routing_key, durable=True, queue_arguments=dict(dead.arguments))(
                channel
            ).declare()
            self._declared.add(dead.queue)
        Queue(name, Exchange(""), name, durable=True, queue_arguments=dict(spec.arguments))(channel).declare()

    # -- remote control -----------------------------------------------------------------------------------------

    def _add_by_hand(self, queue: str, *args: Any, **options: Any) -> None:
        if queue in self._declined:
            self._declined.discard(queue)
            log.info("%s is consumed again", queue)
        elif self._plan.lane(queue) is not None:  # Celery would declare it otherwise than we do, and end by the refusal
            if queue not in self._consumed:
                log.warning("%s is not consumed: tenants' queues are, by themselves, once they are in use", queue)
        elif queue not in self._consumed:
            self._add_task_queue(queue, *args, **options)

    def _cancel_by_hand(self, queue: str) -> None:
        if queue in self._consumed:
            self._declined.add(queue)
            self._end(queue, "a person has cancelled it")
        else:
            self._cancel_task_queue(queue)
