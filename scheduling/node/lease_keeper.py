"""Keeps the node's lease, and its clock: a thread that does little else, so that a busy engine cannot starve it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread

from scheduling.coordination.port import Assignment, Coordinator
from scheduling.store.connection import Connect, Link
from scheduling.store.database_clock import DatabaseClock
from scheduling.store.port import StoreUnavailable

logger = logging.getLogger(__name__)


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
        self._leaving: SimpleQueue[frozenset[int] | None] = SimpleQueue()  # None: stop
        self._thread = Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Join and renew once, so that a node that cannot start says so at once; then go on in a thread.

        Raises StoreUnavailable.
        """
        self._calibrate()
        self._coordinator.join()
        self._on_assignment(self._coordinator.renew())
        self._thread.start()

    def release(self, shards: frozenset[int]) -> None:
        """Tell the coordinator that these shards were drained, and renew at once."""
        self._leaving.put(shards)

    def stop(self, timeout_s: float) -> None:
        """Renew no more; the lease still runs until ``leave``."""
        self._leaving.put(None)
        self._thread.join(timeout_s)
        self._link.close()

    def leave(self) -> None:
        """Free at once what the node still owns. Where the database does not answer, the lease runs out by itself."""
        for _ in range(2):  # a session that broke since it was last used is made anew
            try:
                self._coordinator.leave()
                return
            except StoreUnavailable as problem:
                logger.warning("the lease was not given up: %s", problem)

    def _run(self) -> None:
        while True:
            try:
                if (leaving := self._leaving.get(timeout=self._renew_s)) is None:
                    return
                self._try(lambda: self._coordinator.release(leaving))
            except Empty:
                pass  # nothing leaves: it is time to renew
            self._try(lambda: self._on_assignment(self._coordinator.renew()))
            self._try(self._calibrate)

    def _try(self, call: Callable[[], None]) -> None:
        """The lease that we have goes on; whoever owns the shards then is found by the next renewal."""
        try:
            call()
        except StoreUnavailable as problem:
            logger.warning("the lease was not renewed: %s", problem)

    def _calibrate(self) -> None:
        with self._link() as connection:
            self._clock.calibrate(connection)
