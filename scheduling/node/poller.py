"""The node of stop 2: polls, publishes, confirms. Any number of them, no owners, no wheel, no look-ahead.

What a poll took is committed before it is published. A fire that the broker refuses is offered again until its claim's
deadline; from then on it belongs to whichever poller finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Event
from uuid import UUID

from scheduling.broker.port import Publisher
from scheduling.coordination.port import Assignment, Coordinator
from scheduling.core.fire import Fire, Outcome, Verdict
from scheduling.core.latency import LatencyHistogram
from scheduling.core.ticks import Ticks
from scheduling.failpoints import Point, failpoint
from scheduling.models.hints import CHANNEL
from scheduling.node.health import Health
from scheduling.node.lease_keeper import LeaseKeeper
from scheduling.store.connection import Connect
from scheduling.store.database_clock import DatabaseClock
from scheduling.store.listener import Listener
from scheduling.store.polling import PollingStore
from scheduling.store.port import StoreUnavailable

logger = logging.getLogger(__name__)
OFFER_AGAIN_S = 0.2  # a fire that was refused, or could not be sent
EXPIRE_S = 60.0
DRAIN_S = 5.0


class Poller:
    """``backlog``: published, unconfirmed fires at which it stops polling; ``confirm_s``: the deadline of a claim."""

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
    ) -> None:
        self._node, self._store, self._publisher = node, store, publisher
        self._tick_s, self._confirm_s, self._batch, self._backlog = tick_s, confirm_s, batch, backlog
        self._clock = DatabaseClock()
        self._lease = LeaseKeeper(coordinator, self._clock, connect, renew_s=renew_s, on_assignment=self._note)
        self._hints = Listener(connect, CHANNEL, lambda _: self._wake.put(None))
        self._wake: SimpleQueue[Sequence[Outcome] | None] = SimpleQueue()  # outcomes, or only a reason to look
        self._in_flight: dict[UUID, Fire] = {}
        self._refused: list[Fire] = []
        self._stopping = Event()
        self._latency = LatencyHistogram()
        self._expire_at = 0.0
        self._ticks = Ticks()
        self.health = Health(self._ticks, poll_s=tick_s)

    def run(self) -> None:
        """Work until ``stop``; then wait for outstanding confirms.

        Raises StoreUnavailable if the database cannot be reached at the start.
        """
        self._publisher.start(self._wake.put)
        self._lease.start()
        self._store.adopt()
        self._hints.start()
        logger.info("node %s is running", self._node)
        poll_at = 0.0
        self._ticks.expect(self._store.shards, self._clock.monotonic())
        while not self._stopping.is_set():
            now = self._clock.monotonic()
            if now >= poll_at:
                poll_at = now if self._poll() else now + self._tick_s
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
        try:
            self._expire()
            failpoint(Point.CLAIM_BEFORE)
            fires = self._store.poll(self._clock, limit=self._batch)
        except StoreUnavailable as problem:
            logger.warning("nothing was claimed, or its answer was lost: %s", problem)
            return False
        self._ticks.tick(self._store.shards, self._clock.monotonic())
        if fires:
            failpoint(Point.CLAIM_COMMITTED)
        self._publish(fires)
        return len(fires) >= self._batch

    def _expire(self) -> None:
        if (now := self._clock.monotonic()) < self._expire_at:
            return
        self._expire_at = now + EXPIRE_S
        for day in self._store.expire(self._clock):
            logger.info("dropped the expired history %s", day)

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
                self._latency.record(max(0.0, now - self._clock.real_time(fire.fire_at)))
            else:
                self._refused.append(fire)
        if confirmed:
            try:
                failpoint(Point.RECORD_BEFORE)
                self._store.confirm(confirmed)
                failpoint(Point.RECORD_COMMITTED)
            except StoreUnavailable as problem:
                logger.warning("%d confirms were not recorded: %s", len(confirmed), problem)

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
        self._publish(again)

    def _note(self, assignment: Assignment) -> None:
        """Membership is for people to see: at this stop nobody owns anything."""
        self.health.renewed(assignment.lease_until)

    def _drain(self) -> None:
        self.health.drains()
        until = self._clock.monotonic() + DRAIN_S
        while self._in_flight and self._clock.monotonic() < until:
            self._wait(0.1)
        self._publisher.stop(timeout_s=1.0)
        self._hints.stop()
        self._lease.leave(timeout_s=1.0)
        self._store.close()
        logger.info("node %s has drained", self._node)
