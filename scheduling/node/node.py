"""A scheduler node: one engine, and the threads round it.

::

    lease keeper ──assignment──┐                ┌──> storekeeper ────answers──┐
    hints ─────────────────────┼──> inbox ──> engine ──> publisher ──outcomes─┼──> inbox
    publisher ──outcomes───────┘                ├──> queue watcher ──seen─────┤
                                                ├──> limits, exchange ────────┘
                                                └──> redriver, janitor

Where tenants have limits or shares, one more thread tells the engine of them (``share_keeper``).

The engine runs in the thread that calls ``run``; nothing else touches it. What a user's receivers are told, hooks tell
them.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Collection, Sequence
from datetime import datetime

from fairness.queue_janitor import Janitor
from scheduling.broker.port import Publisher, QueueWatch
from scheduling.coordination.port import Assignment, Coordinator
from scheduling.core.engine import Engine
from scheduling.core.engine_limits import EngineLimits
from scheduling.core.errors import FairbeatError
from scheduling.core.fire import Outcome, Verdict
from scheduling.core.gates import Queue
from scheduling.models.hints import CHANNEL
from scheduling.node.collector import Collector
from scheduling.node.health import Health
from scheduling.node.hooks import Hooks
from scheduling.node.inbox import Inbox
from scheduling.node.lease_keeper import LeaseKeeper
from scheduling.node.queue_watcher import QueueWatcher
from scheduling.node.redriver import Redriver
from scheduling.node.share_threads import Shares, ShareThreads
from scheduling.node.steering import Steering
from scheduling.node.storekeeper import Storekeeper
from scheduling.store.connection import Connect
from scheduling.store.database_clock import DatabaseClock
from scheduling.store.listener import Listener
from scheduling.store.port import ScheduleStore

logger = logging.getLogger(__name__)
DRAIN_S = 2.0  # a hand-over, and a take-over that was under way when the end came
# Fires come and go by the ten thousand and hold no cycles: the collector's defaults walk them many times a second.
GC_THRESHOLDS = 50_000, 20, 20


class Superseded(FairbeatError):
    """Another process has taken over a schedule that only one may run."""


class Node:
    """``alone``: this node must be the only one (stop 1), and ends when it finds another. ``collector``: what brings
    home what the broker has dead-lettered, where it does such a thing. ``queues``: where to look whether messages are
    gone; None at the stop that has no broker. ``shares``: what tenants' limits and shares go by, where ``limits`` says
    that there are any. ``janitor``: retires queues that nobody uses.
    """

    def __init__(
        self,
        node: str,
        *,
        store: ScheduleStore,
        publisher: Publisher,
        coordinator: Coordinator,
        connect: Connect,
        limits: EngineLimits,
        renew_s: float,
        alone: bool = False,
        collector: Collector | None = None,
        queues: QueueWatch | None = None,
        shares: Shares | None = None,
        janitor: Janitor | None = None,
    ) -> None:
        self._node, self._publisher, self._alone, self._collector = node, publisher, alone, collector
        self._clock = DatabaseClock()
        self._engine = Engine(self._clock, limits)
        self.health = Health(self._engine.ticks, poll_s=limits.poll_s)
        self._inbox = Inbox()
        self._hooks = Hooks()
        self._watcher = None if queues is None else QueueWatcher(queues, self._seen_later)
        self._redriver, self._janitor = Redriver(connect), janitor
        self._shares: ShareThreads | None = None
        if shares is not None:
            self._shares = ShareThreads(
                node, shares, engine=self._engine, clock=self._clock, inbox=self._inbox, connect=connect
            )
        self._stopping = False
        self._problem: FairbeatError | None = None
        self._lease = LeaseKeeper(coordinator, self._clock, connect, renew_s=renew_s, on_assignment=self._assign_later)
        self._steering = Steering(
            self._engine,
            self._clock,
            publish=publisher.publish,
            order=lambda order: self._storekeeper.order(order),  # noqa: PLW0108  (made below)
            release=lambda shards, then: self._lease.release(shards, lambda: self._inbox.put(then)),
            renew_soon=self._lease.renew_soon,
            look=None if self._watcher is None else self._watcher.look,
            redrive=self._redrive,
            limits=None if self._shares is None else self._shares.ask,
            exchange=None if self._shares is None else self._shares.tell,
            read_terms=lambda: None if self._shares is None else self._shares.read_terms(),
        )
        self._storekeeper = Storekeeper(
            store,
            self._engine,
            self._inbox,
            node=node,
            on_stale=self._stale,
            on_taken=self._steering.taken,
            on_not_taken=self._steering.not_taken,
            on_lost=self._hooks.lost,
        )
        self._hints = Listener(connect, CHANNEL, self._hint_later)

    def run(self) -> None:
        """Work until ``stop``; then drain, and give the shards up.

        Raises StoreUnavailable if the database cannot be reached at the start, Superseded if another lone process has
        taken over.
        """
        self._hooks.start()
        self._publisher.start(self._outcomes_later)
        self._storekeeper.start()
        self._redriver.start()
        if self._shares is not None:
            self._shares.start()
        if self._janitor is not None:
            self._janitor.start()
        if self._watcher is not None:
            self._watcher.start()
        self._lease.watch()
        self._lease.start()
        self._hints.start()
        if self._collector is not None:
            self._collector.start()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        logger.info("node %s is running", self._node)
        while not self._stopping:
            self._step()
        self._drain()
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        """Drain and end. Safe in a signal handler, and from any thread."""
        self._stopping = True
        self._inbox.put(lambda: None)

    def _step(self) -> None:
        wake = self._engine.next_wake() - self._clock.monotonic()
        for event in self._inbox.take(wake):
            self._steering.carry_out(event() or ())
        self._steering.carry_out(self._engine.advance())
        self.health.turned()

    def _drain(self) -> None:
        """Hand every shard over, as when another node should have it; and leave before anything else is ended, so that
        the others need not wait for that.
        """
        self.health.drains()
        if self._collector is not None:
            self._collector.stop(timeout_s=0.0)  # waited for below
        until = time.monotonic() + DRAIN_S
        while not self._steering.drain() and time.monotonic() < until:
            self._step()
        self._lease.leave(timeout_s=1.0)
        self._publisher.stop(timeout_s=1.0)
        self._hints.stop()
        if self._collector is not None:
            self._collector.stop(timeout_s=1.0)
        if self._watcher is not None:
            self._watcher.stop()
        self._redriver.stop(timeout_s=1.0)
        if self._janitor is not None:
            self._janitor.stop(timeout_s=1.0)
        if self._shares is not None:
            self._shares.stop(timeout_s=1.0)
        self._storekeeper.stop(timeout_s=2.0)
        self._hooks.stop(timeout_s=1.0)
        logger.info("node %s has drained", self._node)

    def _redrive(self, now: datetime) -> None:
        """As the owner of shard 0: what one node does for all."""
        self._redriver.ask(now)
        if self._janitor is not None:
            self._janitor.ask()

    # -- events, in the engine's thread -------------------------------------------------------------------------

    def _assign(self, assignment: Assignment) -> None:
        self._steering.assigned(assignment)
        self.health.renewed(assignment.lease_until)

    def _stale(self, shards: Collection[int]) -> None:
        if self._alone:
            self._problem = Superseded(
                f"another process has taken over {len(shards)} shards: only one may run at stop 1"
            )
            self._stopping = True

    # -- from other threads -------------------------------------------------------------------------------------

    def _assign_later(self, assignment: Assignment) -> None:
        self._inbox.put(lambda: self._assign(assignment))

    def _outcomes_later(self, outcomes: Sequence[Outcome]) -> None:
        self._inbox.put(lambda: self._engine.published(outcomes))
        if self._hooks.tells_of_fires:
            self._hooks.fired([outcome.fire for outcome in outcomes if outcome.verdict is Verdict.CONFIRMED])

    def _seen_later(self, empty: frozenset[Queue]) -> None:
        self._inbox.put(lambda: self._engine.queues_seen(empty))

    def _hint_later(self, payload: str) -> None:
        shard = int(payload)
        self._inbox.put(lambda: self._engine.look_now() if shard in self._engine.shards else None)
