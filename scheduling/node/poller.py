"""The node of stop 2: polls, publishes, confirms. Any number of them, no owners, no wheel, no look-ahead.

What a poll took is committed before it is published. A fire that the broker refuses is offered again until its claim's
deadline; from then on it belongs to whichever poller finds it. What was confirmed and is not acquired in time may have
lost its message: the queues are asked (``node.queue_watcher``), and it is sent again where that is so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Event
from typing import TypeVar
from uuid import UUID

from fairness.queue_janitor import Janitor
from scheduling.broker.port import Publisher, QueueWatch
from scheduling.coordination.port import Assignment, Coordinator
from scheduling.core.clock import Clock
from scheduling.core.fire import Fire, Outcome, Verdict
from scheduling.core.gates import Queue, lane_of
from scheduling.core.latency import LatencyHistogram
from scheduling.core.lines import SOON_S
from scheduling.core.ticks import Ticks
from scheduling.core.unstarted import LIMIT, QUEUES, Unstarted
from scheduling.core.upkeep import EXPIRE_S, REDRIVE_S
from scheduling.failpoints import Point, failpoint
from scheduling.models.hints import CHANNEL
from scheduling.node.collector import Collector
from scheduling.node.health import Health
from scheduling.node.hooks import Hooks
from scheduling.node.lease_keeper import LeaseKeeper
from scheduling.node.poll_limits import PollLimits
from scheduling.node.queue_watcher import QueueWatcher
from scheduling.node.redriver import Redriver
from scheduling.store.connection import Connect
from scheduling.store.database_clock import DatabaseClock
from scheduling.store.listener import Listener
from scheduling.store.polling import PollingStore
from scheduling.store.port import StoreUnavailable

T = TypeVar("T")

logger = logging.getLogger(__name__)
OFFER_AGAIN_S = 0.2  # a fire that was refused, or could not be sent
LOOK_S = 5.0  # for messages that are gone
DRAIN_S = 5.0

Seen = frozenset[Queue]


class Poller:
    """``backlog``: published, unconfirmed fires at which it stops polling; ``confirm_s``: the deadline of a claim;
    ``collector``: what brings home what the broker has dead-lettered, where it does such a thing; ``queues``: where to
    look whether messages are gone; ``limits``: of tenants, by this store and the poller's clock; None: they have none;
    ``janitor``: retires queues that nobody uses.
    """

    def __init__(
        self,
        node: str,
        *,
        store: PollingStore,
        publisher: Publisher,
        coordinator: Coordinator,
        connect: Connect,
        tick_s: float,
        renew_s: float,
        confirm_s: float,
        batch: int,
        backlog: int,
        collector: Collector | None = None,
        queues: QueueWatch | None = None,
        look_s: float = LOOK_S,
        limits: Callable[[PollingStore, Clock], PollLimits] | None = None,
        janitor: Janitor | None = None,
    ) -> None:
        self._node, self._store, self._publisher, self._collector = node, store, publisher, collector
        self._tick_s, self._confirm_s, self._batch, self._backlog = tick_s, confirm_s, batch, backlog
        self._clock = DatabaseClock()
        self._limits = None if limits is None else limits(store, self._clock)
        self._lease = LeaseKeeper(coordinator, self._clock, connect, renew_s=renew_s, on_assignment=self._note)
        self._hints = Listener(connect, CHANNEL, lambda _: self._wake.put(None))
        # outcomes, what was seen of queues, or only a reason to look
        self._wake: SimpleQueue[Sequence[Outcome] | Seen | None] = SimpleQueue()
        self._hooks = Hooks()
        self._redriver, self._janitor = Redriver(connect), janitor
        self._watcher = None if queues is None else QueueWatcher(queues, self._wake.put)
        self._unstarted: Unstarted | None = None  # whose queues are asked for
        self._look_s, self._look_at = look_s, 0.0
        self._in_flight: dict[UUID, Fire] = {}
        self._refused: list[Fire] = []
        self._stopping = Event()
        self._latency = LatencyHistogram()
        self._expire_at = self._redrive_at = 0.0
        self._ticks = Ticks()
        self.health = Health(self._ticks, poll_s=tick_s)

    def run(self) -> None:
        """Work until ``stop``; then wait for outstanding confirms.

        Raises StoreUnavailable if the database cannot be reached at the start.
        """
        self._hooks.start()
        self._publisher.start(self._wake.put)
        if self._watcher is not None:
            self._watcher.start()
        self._lease.start()
        self._store.adopt()
        if self._limits is not None:
            self._limits.start()
        self._redriver.start()
        if self._janitor is not None:
            self._janitor.start()
        self._hints.start()
        if self._collector is not None:
            self._collector.start()
        logger.info("node %s is running", self._node)
        poll_at = 0.0
        self._ticks.expect(self._store.shards, self._clock.monotonic())
        while not self._stopping.is_set():
            now = self._clock.monotonic()
            if now >= poll_at:
                poll_at = now if self._poll() else now + self._tick_s
            limits_s = self._limits.wait_s() if self._limits is not None else None
            if limits_s is not None:
                poll_at = min(poll_at, self._clock.monotonic() + max(limits_s, SOON_S))
            if self._wait(poll_at - self._clock.monotonic()):
                poll_at = 0.0
            self.health.turned()
        self._drain()

    def stop(self) -> None:
        """Drain and end. Safe in a signal handler, and from any thread."""
        self._stopping.set()
        self._wake.put(None)

    def _poll(self) -> bool:
        """Take and publish what is due; True if there may be more."""
        if len(self._in_flight) >= self._backlog:
            return False
        self._tried(self._keep_up, "upkeep has failed")
        if self._limits is not None:
            self._tried(self._limits.look, "limits were not looked at")
        fires = self._tried(self._take, "nothing was claimed, or its answer was lost")
        if fires is None:
            return False
        self._ticks.tick(self._store.shards, self._clock.monotonic())
        self._publish(self._within_limits(fires))
        lost = self._store.lost_runs()  # most of which run again at once
        self._hooks.lost(lost)
        return bool(lost) or len(fires) >= self._batch

    def _within_limits(self, fires: list[Fire]) -> list[Fire]:
        """Those that may go now. What could not be asked for stays claimed, until its deadline."""
        limits, returned = self._limits, self._store.returned
        if limits is None or not fires:
            return fires
        return self._tried(lambda: limits.admit(fires, returned), "nothing was admitted") or []

    def _take(self) -> list[Fire]:
        failpoint(Point.CLAIM_BEFORE)
        fires = self._store.poll(self._clock, limit=self._batch)
        if fires:
            failpoint(Point.CLAIM_COMMITTED)
        return fires

    def _tried(self, do: Callable[[], T], otherwise: str) -> T | None:
        """What it gave; None where the store did not answer, or refused: that is logged, and the next time tries again,
        since other jobs may have nothing to do with it.
        """
        try:
            return do()
        except StoreUnavailable as problem:
            logger.warning("%s: %s", otherwise, problem)
        except Exception:
            logger.exception("%s", otherwise)
        return None

    def _keep_up(self) -> None:
        now = self._clock.monotonic()
        if now >= self._expire_at:
            self._expire_at = now + EXPIRE_S
            for day in self._store.expire(self._clock):
                logger.info("dropped the expired history %s", day)
        if now >= self._redrive_at:
            self._redrive_at = now + REDRIVE_S
            self._redriver.ask(self._clock.now())
            if self._janitor is not None:
                self._janitor.ask()
        if self._watcher is not None and self._unstarted is None and now >= self._look_at:
            self._look_at = now + self._look_s
            self._ask_for(self._store.unstarted(limit=LIMIT), self._watcher)

    def _ask_for(self, found: Unstarted, watcher: QueueWatcher) -> None:
        """``_seen`` is told of the queues of what may have lost its message. What would be too many stays due, and is
        asked for the next time.
        """
        if found.suspects:
            of_queues = {lane_of(fire): fire for fire in found.suspects if fire.id not in found.overtaken}
            asked = dict(list(of_queues.items())[:QUEUES])
            mine = [fire for fire in found.suspects if fire.id in found.overtaken or lane_of(fire) in asked]
            self._unstarted = Unstarted(mine, found.overtaken, {})
            watcher.look(list(asked.values()))

    def _seen(self, empty: Seen) -> None:
        """The queues that hold nothing that waits, or are gone."""
        found, self._unstarted = self._unstarted, None
        if found is None:
            return
        gone = {fire.id for fire in found.suspects if fire.id in found.overtaken or lane_of(fire) in empty}
        again = self._tried(lambda: self._store.send_again(found.suspects, gone), "nothing was sent again")
        if again:
            logger.warning("%d messages that nobody acquired seem to be gone: sent again", len(again))
            self._publish(again)

    def _publish(self, fires: Sequence[Fire]) -> None:
        if fires:
            self._in_flight.update((fire.id, fire) for fire in fires)
            self._publisher.publish(fires)

    def _wait(self, timeout_s: float) -> bool:
        """Outcomes and hints until ``timeout_s`` has passed; True if something became due meanwhile."""
        if self._refused:
            timeout_s = min(timeout_s, OFFER_AGAIN_S)
        outcomes: list[Outcome] = []
        hinted = False
        try:
            event = self._wake.get(timeout=max(timeout_s, 0.001))
            while True:
                if isinstance(event, frozenset):
                    self._seen(event)
                else:
                    hinted |= event is None
                    outcomes += event or ()
                event = self._wake.get_nowait()
        except Empty:
            pass  # that was all
        self._settle(outcomes)
        if not outcomes:
            self._offer_again()
        return hinted

    def _settle(self, outcomes: Sequence[Outcome]) -> None:
        """One UPDATE for all that were confirmed. If it fails, the deadline decides: they are published again, and
        refused.
        """
        now = self._clock.monotonic()
        confirmed: list[Fire] = []
        for outcome in outcomes:
            fire = outcome.fire
            if self._in_flight.get(fire.id) is not fire:
                continue  # claimed anew since, under a higher fence
            if outcome.verdict is Verdict.CONFIRMED:
                del self._in_flight[fire.id]
                confirmed.append(fire)
                if fire.attempt == 0:
                    self._latency.record(max(0.0, now - self._clock.real_time(fire.fire_at)))
            else:
                self._refused.append(fire)
        if confirmed:
            self._tried(lambda: self._record(confirmed), f"{len(confirmed)} confirms were not recorded")
        if confirmed and self._limits is not None:
            self._limits.confirmed(confirmed)
        if confirmed and self._hooks.tells_of_fires:
            self._hooks.fired(confirmed)

    def _record(self, confirmed: Sequence[Fire]) -> None:
        failpoint(Point.RECORD_BEFORE)
        self._store.confirm(confirmed)
        failpoint(Point.RECORD_COMMITTED)

    def _offer_again(self) -> None:
        refused, self._refused = self._refused, []
        oldest = self._clock.monotonic() - self._confirm_s
        again = []
        for fire in refused:
            if self._in_flight.get(fire.id) is not fire:
                continue
            if fire.claimed_at > oldest:
                again.append(fire)
            else:
                del self._in_flight[fire.id]
                if self._limits is not None:
                    self._limits.dropped([fire])
        self._publish(again)

    def _note(self, assignment: Assignment) -> None:
        """Membership is for people to see: at this stop nobody owns anything."""
        self.health.renewed(assignment.lease_until)

    def _drain(self) -> None:
        self.health.drains()
        if self._collector is not None:
            self._collector.stop(timeout_s=0.0)  # waited for below
        until = self._clock.monotonic() + DRAIN_S
        while self._in_flight and self._clock.monotonic() < until:
            self._wait(0.1)
        self._publisher.stop(timeout_s=1.0)
        self._hints.stop()
        if self._collector is not None:
            self._collector.stop(timeout_s=1.0)
        if self._watcher is not None:
            self._watcher.stop()
        self._redriver.stop(timeout_s=1.0)
        if self._janitor is not None:
            self._janitor.stop(timeout_s=1.0)
        if self._limits is not None:
            self._limits.close()
        self._lease.leave(timeout_s=1.0)
        self._store.close()
        self._hooks.stop(timeout_s=1.0)
        logger.info("node %s has drained", self._node)
