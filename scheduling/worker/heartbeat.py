"""Renews the leases of all fires that run in this process: one thread, one statement, one connection of its own.

::

    asleep ──a slice has passed, and a run of the last one still runs──▶ listening: hears of a cancellation at once
      ▲                                                                    │
      └────────────────nothing ran when it beat: no connection─────────────┘

Invariants: a fire is renewed by itself and only until its hard timeout, so that what a killed or stuck run left behind
ends; a fire is told that it is lost when another has it, never because the database did not answer; whatever is to stop
is told so by the next beat at the latest. The thread starts with the first fire (a forked child has its own), ends when
nothing has run for a while, and never keeps the process from exiting. It beats in a rhythm of its own: a short run
neither wakes it nor waits for it, nor costs a connection.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from uuid import UUID

from django.db import Error

from scheduling.store.ledger import PostgresLedger
from scheduling.worker.context import JobContext
from scheduling.worker.notices import CancelNotices

SLICE_S = 1.0  # a run that is shorter is not worth listening for

log = logging.getLogger(__name__)


class Heartbeat:
    """``every_s`` is a third of the lease: two renewals may fail before it is out.

    The first comes at most that long after a run began. Without ``notices`` it hears nothing between its beats.
    """

    def __init__(
        self,
        ledger: PostgresLedger,
        *,
        every_s: float,
        notices: CancelNotices | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._every_s = every_s
        self._slice_s = min(SLICE_S, every_s / 2)
        self._notices = notices
        self._monotonic = monotonic
        self._lock = threading.Lock()  # guards all below
        self._kept: dict[UUID, tuple[JobContext, float]] = {}  # by holder; monotonic second of the hard timeout
        self._is_used = False  # since the last beat
        self._thread: threading.Thread | None = None

    def keep(self, context: JobContext, *, hard_timeout_s: float) -> None:
        """Renew the lease of this fire from now on, for ``hard_timeout_s`` at most."""
        with self._lock:
            self._kept[context.fired.delivery.holder] = context, self._monotonic() + hard_timeout_s
            self._is_used = True
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="fairbeat-heartbeat", daemon=True)
                self._thread.start()

    def release(self, context: JobContext) -> None:
        """Its run has ended."""
        with self._lock:
            self._kept.pop(context.fired.delivery.holder, None)

    def _run(self) -> None:
        while self._is_wanted():
            self._rest()
            self.beat()
        self._ledger.close()

    def _is_wanted(self) -> bool:
        """False when nothing has run since the last beat: the thread ends."""
        with self._lock:
            if self._kept or self._is_used:
                self._is_used = False
                return True
            self._thread = None
            return False

    def _rest(self) -> None:
        """Until the next beat is due, or something is heard."""
        due = time.monotonic() + self._every_s
        before: dict[UUID, UUID] = {}
        while (left_s := due - time.monotonic()) > 0:
            running = self._running()
            if not before.keys() & running.keys():
                time.sleep(min(left_s, self._slice_s))
            elif self._hears(running, min(left_s, self._slice_s)):
                return
            before = running

    def _running(self) -> dict[UUID, UUID]:
        """Holder → fire."""
        with self._lock:
            return {holder: context.fire_id for holder, (context, _) in self._kept.items()}

    def _hears(self, running: dict[UUID, UUID], for_s: float) -> bool:
        """Whether one that runs may have been asked to stop."""
        if self._notices is None:
            time.sleep(for_s)
            return False
        try:
            named = self._notices.wait(for_s)
        except Error as error:
            log.debug("cancellations are heard with the next heartbeat only: %s", error)
            self._ledger.close()
            time.sleep(for_s)
            return False
        return named is None or not {str(fire) for fire in running.values()}.isdisjoint(named)

    def beat(self) -> None:
        """Renew once."""
        contexts = self._within_timeout()
        if not contexts:
            self._ledger.close()
            return
        try:
            renewal = self._ledger.heartbeat([context.fired.delivery for context in contexts])
        except Error as error:
            log.warning("the leases of %d running fires could not be renewed, trying again: %s", len(contexts), error)
            self._ledger.close()
            return
        for context in contexts:
            holder = context.fired.delivery.holder
            if holder in renewal.lost and not context.lost:
                log.warning("fire %s: the lease was lost while it ran; another worker may run it", context.fire_id)
                context.mark_lost()
            if holder in renewal.cancelled and not context.cancelled:
                log.info("fire %s: asked to stop: %s", context.fire_id, renewal.cancelled[holder])
                context.mark_cancelled(renewal.cancelled[holder])

    def _within_timeout(self) -> list[JobContext]:
        with self._lock:
            now = self._monotonic()
            return [context for context, until in self._kept.values() if now < until]
