"""A thread that does nothing but tell outcomes, for publishers whose own threads may be busy elsewhere.

Invariants: outcomes are told in the order in which they were handed over, one call at a time, never from the thread
that hands them over; what gathered during a call is told in the next one. ``stop`` returns when everything has been
told.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from queue import Empty, SimpleQueue

from scheduling.broker.port import Report
from scheduling.core.fire import Fire, Outcome, Verdict


class Reporter:
    """Between the threads of a publisher and the ``report`` of its owner."""

    def __init__(self) -> None:
        self._told: SimpleQueue[list[Outcome] | None] = SimpleQueue()
        self._report: Report
        self._thread: threading.Thread | None = None

    def start(self, report: Report) -> None:
        """Begins to tell."""
        self._report = report
        self._thread = threading.Thread(target=self._run, name="publisher-reports", daemon=True)
        self._thread.start()

    def tell(self, fires: Iterable[Fire], verdict: Verdict) -> None:
        """Hands over one verdict on some fires; returns at once."""
        if outcomes := [Outcome(fire, verdict) for fire in fires]:
            self._told.put(outcomes)

    def stop(self) -> None:
        """Tells what is left and ends. Nothing may be handed over afterwards."""
        if self._thread is not None:
            self._told.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (outcomes := self._told.get()) is not None:
            is_last = self._gather(outcomes)
            self._report(outcomes)
            if is_last:
                return

    def _gather(self, outcomes: list[Outcome]) -> bool:
        """Adds what is there already; whether the end is among it."""
        while True:
            try:
                more = self._told.get_nowait()
            except Empty:
                return False
            if more is None:
                return True
            outcomes += more
