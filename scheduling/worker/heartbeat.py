"""Renews the leases of all fires that run in this process: one thread, one statement, one connection of its own.

Invariants: a fire is renewed by itself and only until its hard timeout, so that what a killed or stuck run left behind
ends; a fire is told that it is lost when another has it, never because the database did not answer. The thread starts
with the first fire (a forked child has its own), ends when nothing has run for a while, and never keeps the process
from exiting. It beats in a rhythm of its own: a short run neither wakes it nor waits for it.
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

log = logging.getLogger(__name__)


class Heartbeat:
    """``every_s`` is a third of the lease: two renewals may fail before it is out.

    The first comes at most that long after a run began.
    """

    def __init__(
        self, ledger: PostgresLedger, *, every_s: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._ledger = ledger
        self._every_s = every_s
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
            time.sleep(self._every_s)
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

    def beat(self) -> None:
        """Renew once."""
        contexts = self._within_timeout()
        if not contexts:
            self._ledger.close()
            return
        try:
            lost = self._ledger.heartbeat([context.fired.delivery for context in contexts]).lost
        except Error as error:
            log.warning("the leases of %d running fires could not be renewed, trying again: %s", len(contexts), error)
            self._ledger.close()
            return
        for context in contexts:
            if context.fired.delivery.holder in lost and not context.lost:
                log.warning("fire %s: the lease was lost while it ran; another worker may run it", context.fire_id)
                context.mark_lost()

    def _within_timeout(self) -> list[JobContext]:
        with self._lock:
            now = self._monotonic()
            return [context for context, until in self._kept.values() if now < until]
