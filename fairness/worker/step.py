"""The step of a worker's consumer that joins the parts: what is in use, how it is consumed, and the fair door.

::

    clerk (a thread) ── queues, weights ──> step ──> consumers <── how many ahead ── inflows
                                              └────> door ──> pool             ^ what came, and how long it ran
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from celery import bootsteps
from celery.utils.log import get_logger
from celery.worker import state
from django.core.exceptions import ImproperlyConfigured

from fairness.core.prefetch import ASKED, Inflows
from fairness.queues import QueuePlan
from fairness.unreadable import Gate
from fairness.worker.acks import Acks
from fairness.worker.clerk import Clerk, Known, Reports
from fairness.worker.consumers import Consumers
from fairness.worker.loop import read_ahead
from fairness.worker.pool_door import PoolDoor
from fairness.worker.pools import handing
from fairness.worker.sharing import Sharing
from fairness.worker.sources import Sources

TICK_S = 0.5
CLOSE, TERMINATE = 0x2, 0x3  # Celery's states of a worker that is ending

log = get_logger(__name__)


class TenantQueues(bootsteps.StartStopStep):
    """``install`` gives it its lanes, its plan and how it shares."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    lanes: tuple[str, ...] = ()
    plan: Callable[[], QueuePlan]
    sharing: Callable[[], Sharing]
    tenant_header: str = ""

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._c = consumer
        self._timer: Any = None
        self._known: Known | None = None
        self._has_warned_of_etas = False
        self._gate = Gate(tenant_header=self.tenant_header)
        self._sources = Sources(self.tenant_header)
        sharing = type(self).sharing()
        hand = handing(consumer) if sharing.is_fair else None
        if sharing.is_fair and hand is None:
            log.warning("the order of tasks in this worker is Celery's: when one ends is not known in its pool")
        self._is_amqp = consumer.conninfo.transport.driver_type == "amqp"
        can_ask = self._is_amqp and hand is not None and not self._scales
        self._inflows = Inflows(can_ask=can_ask, is_fixed=hand is None or not self._is_amqp)
        self._consumers = Consumers(consumer, applied=self._applied, lost=self._inflows.lost)
        self._door: PoolDoor | None = None
        if hand is not None:
            self._door = PoolDoor(consumer, hand, self._sources, self._inflows, by_count=sharing.by_count)
        self._acks = Acks(consumer) if hand is not None and self._is_amqp and consumer.hub is not None else None
        self._clerk = Clerk(
            self.lanes,
            tell=self._told,
            tenants=self._door.tenants if self._door else tuple,
            figures=self._door.figures if self._door else None,
        )
        self._is_told = False

    @property
    def _scales(self) -> bool:
        """`--autoscale`: the pool grows by what waits in the worker, and so of each queue something must."""
        return bool(getattr(self._c.controller, "autoscaler", None) or getattr(self._c.controller, "autoscale", None))

    @property
    def _is_ending(self) -> bool:
        """Before it says so by its state, a worker that is told to end cancels what it consumes."""
        asked: tuple[Any, Any] = (state.should_stop, state.should_terminate)  # None, False, or an exit status
        return not self._c.pool.active or any(status is not None and status is not False for status in asked)

    @property
    def _slots(self) -> int:
        """That the pool has, or may come to have."""
        most = getattr(self._c.controller, "max_concurrency", None) or 0
        return max(most, self._c.pool.num_processes or 1)

    # -- the worker's life --------------------------------------------------------------------------------------

    def start(self, c: Any) -> None:
        plan = type(self).plan()
        self._refuse_dead_letters(c, plan)
        self._is_told = c.app.amqp.queues._consume_from is not None
        if self._is_amqp and c.qos_global and not self._is_told:
            raise ImproperlyConfigured(
                "CELERY_TASK_DEFAULT_QUEUE_TYPE: must be 'quorum' (and CELERY_WORKER_DETECT_QUORUM_QUEUES on), since a "
                "worker with a global prefetch cannot consume the tenants' quorum queues"
            )
        if self._is_amqp:
            self._gate.open(c, plan)
        self._sources.connected(c.task_consumer, plan)
        self._consumers.connected(plan)
        if self._door is not None:
            self._door.connected()
            c.call_soon(read_ahead, c, self._door.messages_a_turn)
        if self._acks is not None:
            self._acks.connected()
        self._timer = c.timer.call_repeatedly(TICK_S, self._tick)
        if self._is_told:
            log.info("-Q names what this worker consumes; the tenants' queues are left to others")
            if self._door is not None:
                self._clerk.start(None)  # for the weights: its slots are not for everybody
            return
        self._clerk.start(Reports(c.hostname))
        # Not now: what is consumed before the loop runs has nobody to take it.
        c.call_soon(self._follow)

    def stop(self, c: Any) -> None:
        if self._timer is not None:
            c.timer.cancel(self._timer)
            self._timer = None
        if c.blueprint.state in (CLOSE, TERMINATE):
            self._clerk.leaving()
        if self._acks is not None:
            self._acks.stop()
        self._consumers.disconnected()
        if self._door is not None:
            self._door.disconnected()
        else:
            self._inflows.disconnected()

    def shutdown(self, c: Any) -> None:  # noqa: ARG002  (Celery's signature)
        self._clerk.stop()

    def info(self, c: Any) -> Any:  # noqa: ARG002  (Celery's signature)
        return {} if self._door is None else {"fair_door": self._door.info()}

    def _refuse_dead_letters(self, c: Any, plan: QueuePlan) -> None:
        """A worker that consumed them would run, or lose, what a node is to look into."""
        for lane in self.lanes:
            name = plan.dead_letters(lane).queue
            if name in c.app.amqp.queues.consume_from:
                raise ImproperlyConfigured(
                    f"-Q {name}: dead letters are for scheduler nodes, a worker does not consume them"
                )

    # -- following ----------------------------------------------------------------------------------------------

    def _told(self, known: Known) -> None:
        """Called in the clerk's thread."""
        if self._door is not None:
            self._door.weigh(known.weights)
        before, self._known = self._known, known
        if before is None or before.queues != known.queues:
            self._c.call_soon(self._follow)

    def _tick(self) -> None:
        """Called by the timer: in the loop's thread, or, without an event loop, where the channel may not be used."""
        if self._c.hub is not None:
            self._look()
        else:
            self._c.call_soon(self._look)

    def _look(self) -> None:
        if self._door is not None:
            self._door.tick()
        self._follow()
        if not self._has_warned_of_etas and state.scheduled_requests:  # type: ignore[attr-defined]  # since 5.7
            self._has_warned_of_etas = True
            log.warning(
                "tasks with an ETA or a countdown wait in this worker, and each takes a place of its queue's prefetch "
                "until it is due: of a tenant's queue give such work to the scheduler"
            )

    def _follow(self) -> None:
        """Bring what is consumed to what is in use; in the loop's thread."""
        c, known = self._c, self._known
        if known is None or self._is_told or c.task_consumer is None or self._is_ending or self._consumers.is_busy:
            return
        wanted = self._consumers.wanted(known.queues)
        weights = {name: queue.weight for name, queue in known.queues.items() if name in wanted}
        self._consumers.end_others(wanted)
        if self._door is not None:
            self._door.set_queues(weights)
            changes = self._door.changes(self._slots)
        else:
            self._inflows.set_queues(weights)
            changes = self._inflows.changes(monotonic(), slots=self._slots, lacks_messages=False)
        self._consumers.apply(dict(changes))

    def _applied(self, queue: str, ahead: int) -> None:
        self._inflows.applied(queue, ahead, monotonic())
        if self._door is not None:
            if ahead == ASKED:
                self._door.ask(queue)
            else:
                self._door.withdraw(queue)
