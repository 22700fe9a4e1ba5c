"""Keeps the node's lease, and its clock: a thread that does little else, so that a busy engine cannot starve it.

It renews each ``renew_s``, and sooner when the coordinator says that something has changed, when the lease of another
node may have run out, or when it is asked to; but not twice within ``PAUSE_S``, so that a burst of news is one renewal.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread

from scheduling.coordination.port import Assignment, Coordinator
from scheduling.failpoints import Point, failpoint
from scheduling.store.connection import Connect, Link
from scheduling.store.database_clock import DatabaseClock
from scheduling.store.port import StoreUnavailable

logger = logging.getLogger(__name__)
PAUSE_S = 0.02


class LeaseKeeper:
    """``on_assignment`` is called from its thread after each renewal that succeeded."""

    def __init__(
        self,
        coordinator: Coordinator,
        clock: DatabaseClock,
        connect: Connect,
        *,
        renew_s: float,
        on_assignment: Callable[[Assignment], None],
    ) -> None:
        self._coordinator, self._clock, self._link = coordinator, clock, Link(connect)
        self._renew_s, self._on_assignment = renew_s, on_assignment
        self._renewed_at = self._renew_at = 0.0  # when the last renewal began, and when the next is due
        self._orders: SimpleQueue[Callable[[], None]] = SimpleQueue()  # carried out in the thread
        self._has_left = False
        self._thread = Thread(target=self._run, name="lease", daemon=True)

    def watch(self) -> None:
        """Renew also when the coordinator says that something has changed. To be called before ``start``: what joining
        sets in motion may be over within milliseconds.

        Raises StoreUnavailable.
        """
        self._coordinator.watch(self.renew_soon)

    def start(self) -> None:
        """Join and renew once, so that a node that cannot start says so at once; then go on in a thread.

        Raises StoreUnavailable.
        """
        self._calibrate()
        self._coordinator.join()
        self._renew()
        self._thread.start()

    def renew_soon(self) -> None:
        """Renew as soon as may be. Any thread may call it."""
        self._orders.put(self._hasten)

    def release(self, shards: frozenset[int], then: Callable[[], None]) -> None:
        """Tell the coordinator that these shards were drained; ``then`` is called from the thread, whether or not it
        could be told.
        """
        self._orders.put(lambda: self._release(shards, then))

    def leave(self, timeout_s: float) -> None:
        """Free at once what the node still owns, and end. Where the coordinator does not answer, the lease runs out by
        itself.
        """
        self._orders.put(self._leave)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._has_left:
            with suppress(Empty):
                self._try(self._orders.get(timeout=max(0.0, self._renew_at - time.monotonic())))
            if not self._has_left and time.monotonic() >= self._renew_at:
                self._try(self._renew)
                self._try(self._calibrate)
        self._link.close()

    def _renew(self) -> None:
        self._renewed_at = time.monotonic()
        self._renew_at = self._renewed_at + self._renew_s
        assignment = self._coordinator.renew()
        self._hasten(assignment.look_at)
        self._on_assignment(assignment)

    def _hasten(self, to: float = 0.0) -> None:
        """Renew at this instant, unless that is due sooner."""
        self._renew_at = min(self._renew_at, max(to, self._renewed_at + PAUSE_S))

    def _release(self, shards: frozenset[int], then: Callable[[], None]) -> None:
        self._hasten()  # the renewal that follows finds what could not be released
        try:
            failpoint(Point.HAND_OVER_DRAINED)
            self._coordinator.release(shards)
        finally:
            then()
        failpoint(Point.HAND_OVER_RELEASED)

    def _leave(self) -> None:
        self._has_left = True
        failpoint(Point.HAND_OVER_DRAINED)
        if not self._try(self._coordinator.leave):
            self._try(self._coordinator.leave)  # a session that broke since it was last used is made anew
        failpoint(Point.HAND_OVER_RELEASED)

    def _try(self, call: Callable[[], None]) -> bool:
        """Whether it could be done. If not, the lease that we have goes on, and the next renewal finds what is so."""
        try:
            call()
        except StoreUnavailable as problem:
            logger.warning("the coordinator could not be asked: %s", problem)
            return False
        except Exception:
            logger.exception("the lease was not kept")
            return False
        return True

    def _calibrate(self) -> None:
        with self._link() as connection:
            self._clock.calibrate(connection)
