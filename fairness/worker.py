"""Makes any Celery worker consume every tenant's queue in every lane, and follow tenants as they come and go.

A step of the worker's consumer: once its loop runs, and then each ``POLL_S``, it reads the tenants and begins to
consume the queues that are missing. After a reconnect it starts from nothing, as Celery does.

On RabbitMQ the queues are quorum queues with the publisher's arguments (whoever comes first declares them), and each
consumer has a prefetch of its own: they share twice the worker's slots by weight, at least one each. It is fixed when
the consumer begins; a changed weight counts from the next connect. On other transports the queues are plain, and the
prefetch is Celery's, for all queues together.

Invariants: a queue that the broker refuses (another shape under its name) costs that queue alone, and is tried again;
a database that does not answer costs new tenants a delay, and nothing else. A worker that is told by ``-Q`` what to
consume consumes that only; none consumes the dead letters, which are the scheduler nodes'. What cannot be executed goes
there: ``unreadable.py``. Does not do: order within the worker; retiring of queues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from celery import bootsteps
from celery.utils.log import get_logger
from django.core.exceptions import ImproperlyConfigured
from kombu import Exchange, Queue

from fairness.queues import QueuePlan, QueueSpec
from fairness.unreadable import Gate

POLL_S = 1.0
REFUSED_S = 30.0  # before a queue that the broker refused is tried again

log = get_logger(__name__)


def install(app: Any, *, lanes: Collection[str], plan: Callable[[], QueuePlan], tenant_header: str = "") -> None:
    """Give the workers of this Celery app the step. ``plan`` is asked at each connect: it must be the publisher's.

    ``tenant_header``: the header in which a message names its tenant; one that came through another tenant's queue is
    rejected. Empty: messages do not say.
    """

    class Installed(TenantQueues):
        pass

    Installed.lanes, Installed.plan, Installed.tenant_header = tuple(lanes), staticmethod(plan), tenant_header
    app.steps["consumer"].add(Installed)


@dataclass(frozen=True, slots=True)
class Consumed:
    """A queue that the worker is to consume."""

    spec: QueueSpec
    weight: float


def shares(weights: Mapping[str, float], slots: int) -> dict[str, int]:
    """The prefetch of each queue: twice the slots shared by weight, at least one.

    >>> shares({"a": 1, "b": 3}, slots=4)
    {'a': 2, 'b': 6}
    """
    total = sum(weights.values())
    return {name: max(1, round(2 * slots * weight / total)) for name, weight in weights.items()}


class TenantQueues(bootsteps.StartStopStep):
    """The step; ``install`` gives it its lanes and its plan."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    lanes: tuple[str, ...] = ()
    plan: Callable[[], QueuePlan]
    tenant_header: str = ""

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._timer: Any = None
        self._is_amqp = False
        self._gate = Gate(tenant_header=self.tenant_header)
        self._current_plan = QueuePlan()
        self._consumed: set[str] = set()
        self._refused_until: dict[str, float] = {}  # monotonic seconds
        self._is_blind = False  # the database did not answer last time

    def start(self, c: Any) -> None:
        self._current_plan = type(self).plan()
        self._refuse_dead_letters(c)
        self._is_amqp = c.connection.transport.driver_type == "amqp"
        is_told = c.app.amqp.queues._consume_from is not None
        if self._is_amqp and c.qos_global and not is_told:
            raise ImproperlyConfigured(
                "CELERY_TASK_DEFAULT_QUEUE_TYPE: must be 'quorum' (and CELERY_WORKER_DETECT_QUORUM_QUEUES on), since a "
                "worker with a global prefetch cannot consume the tenants' quorum queues"
            )
        if self._is_amqp:
            self._gate.open(c, self._current_plan)
        if is_told:
            log.info("-Q names what this worker consumes; the tenants' queues are left to others")
            return
        self._consumed.clear()
        self._refused_until.clear()
        self._timer = c.timer.call_repeatedly(POLL_S, self._poll, (c,))
        c.call_soon(self._follow, c)  # not now: what is consumed before the loop runs has nobody to take it

    def stop(self, c: Any) -> None:
        if self._timer is not None:
            c.timer.cancel(self._timer)
            self._timer = None

    def shutdown(self, c: Any) -> None:  # noqa: ARG002  (Celery's signature)
        from django.db import connections

        connections.close_all()

    def _refuse_dead_letters(self, c: Any) -> None:
        """A worker that consumed them would run, or lose, what a node is to look into."""
        for lane in self.lanes:
            name = self._current_plan.dead_letters(lane).queue
            if name in c.app.amqp.queues.consume_from:
                raise ImproperlyConfigured(
                    f"-Q {name}: dead letters are for scheduler nodes, a worker does not consume them"
                )

    def _poll(self, c: Any) -> None:
        """Called by the timer: in the event loop's thread, or, without one, where the channel may not be used."""
        if c.hub is not None:
            self._follow(c)
        else:
            c.call_soon(self._follow, c)

    def _follow(self, c: Any) -> None:
        """Bring what is consumed to what the tenants' table says; a worker that is ending consumes nothing more."""
        if c.task_consumer is None or not c.pool.active:
            return
        wanted = self._wanted()
        if wanted is None:
            return
        for name in self._consumed - wanted.keys():
            c.task_consumer.cancel_by_queue(name)
            self._consumed.discard(name)
            log.info("no longer consuming %s: its tenant is gone", name)
        for name in self._unheard(c):
            c.task_consumer.cancel_by_queue(name)
            self._consumed.discard(name)
            log.warning("the broker no longer gives us %s: consuming it anew", name)
        missing = [name for name in wanted if name not in self._consumed]
        if missing:
            self._consume(c, missing, wanted)

    def _unheard(self, c: Any) -> list[str]:
        """Queues whose consumer the broker has cancelled, and Celery has not noticed: its first look at a connection
        drops whatever is raised there, a cancelled consumer, too.
        """
        if not self._is_amqp:
            return []
        tags, living = c.task_consumer._active_tags, c.task_consumer.channel.callbacks
        return [name for name in self._consumed if tags.get(name) not in living]

    def _wanted(self) -> dict[str, Consumed] | None:
        """The queues of all tenants by name; None when the database does not answer."""
        from django.db import Error, close_old_connections

        from fairness.models import Tenant

        close_old_connections()
        try:
            tenants = list(Tenant.objects.values_list("slug", "weight"))
        except Error as error:
            if not self._is_blind:
                log.warning("the tenants cannot be read; new ones wait until they can: %s", error)
            self._is_blind = True
            return None
        self._is_blind = False
        queues = (
            Consumed(self._current_plan.queue(slug, lane), weight) for slug, weight in tenants for lane in self.lanes
        )
        return {consumed.spec.name: consumed for consumed in queues}

    def _consume(self, c: Any, missing: list[str], wanted: Mapping[str, Consumed]) -> None:
        prefetch = shares({name: consumed.weight for name, consumed in wanted.items()}, c.pool.num_processes or 1)
        for name in missing:
            queue = self._declared(c, wanted[name].spec)
            if queue is None:
                continue
            if self._is_amqp:
                c.task_consumer.qos(prefetch_count=prefetch[name], apply_global=False)
            c.task_consumer.add_queue(queue)
            c.task_consumer.consume()
            self._consumed.add(name)
            log.info("consuming %s, prefetch %s", name, prefetch[name] if self._is_amqp else "shared")
        if self._is_amqp:  # for what is consumed after us
            c.task_consumer.qos(prefetch_count=c.initial_prefetch_count, apply_global=False)

    def _declared(self, c: Any, spec: QueueSpec) -> Queue | None:
        """The queue, once it exists with its dead letters; None where the broker refuses it.

        On a channel of its own: a refusal closes the channel, and with it all its consumers.
        """
        if not self._is_amqp:
            return Queue(spec.name, exchange=Exchange(""), routing_key=spec.name, durable=True)
        if time.monotonic() < self._refused_until.get(spec.name, 0):
            return None
        queue = Queue(spec.name, Exchange(""), spec.name, durable=True, queue_arguments=dict(spec.arguments))
        channel = c.connection.channel()
        try:
            if dead := spec.dead_letters:
                exchange = Exchange(dead.exchange, "direct", durable=True)
                Queue(dead.queue, exchange, dead.routing_key, durable=True, queue_arguments=dict(dead.arguments))(
                    channel
                ).declare()
            queue(channel).declare()
        except c.connection.channel_errors as error:
            log.error("queue %s cannot be consumed, the broker refuses it: %s", spec.name, error)
            self._refused_until[spec.name] = time.monotonic() + REFUSED_S
            return None
        finally:
            channel.close()
        return Queue(spec.name, Exchange(""), spec.name, no_declare=True)
