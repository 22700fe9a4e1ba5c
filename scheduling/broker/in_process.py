"""Fires → threads of this very process: stop 1 has no broker.

What a broker's confirm is elsewhere is here the moment from which the ledger knows of the run: ``acquired``. Before
it nobody would run the fire again without the node; after it the lease does.

Invariants:

- at most ``capacity`` fires are in here, running or waiting for a thread; what is beyond is NACKED, as by a full queue;
- a run that ends without having acquired (the fire was done, or cancelled) is CONFIRMED too: there is nothing left to
  publish;
- a run that raises is logged; if it had not acquired, its fire is LOST: it may or may not have begun.

Does not do: the run itself, which is injected (the worker's side calls the Celery task); timeouts of runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from scheduling.broker.port import Report
from scheduling.broker.reporter import Reporter
from scheduling.core.fire import Fire, Verdict

log = logging.getLogger(__name__)

Run = Callable[[Fire, Callable[[], None]], None]
"""Runs a fire; calls its second argument once the fire's lease is committed."""


class InProcessPublisher:
    """The ``Publisher`` that runs fires itself, in ``threads`` threads."""

    def __init__(self, run: Run, *, threads: int, capacity: int) -> None:
        self._run_fire = run
        self._capacity = capacity
        self._reporter = Reporter()
        self._changed = threading.Condition()  # guards all below
        self._waiting: deque[Fire] = deque()
        self._undecided: dict[int, Fire] = {}  # running, not acquired yet: id(fire) → fire
        self._inside = 0
        self._is_running = False
        self._threads = [
            threading.Thread(target=self._work, name=f"in-process-{number}", daemon=True) for number in range(threads)
        ]

    def start(self, report: Report) -> None:
        """Starts the threads."""
        self._reporter.start(report)
        self._is_running = True
        for thread in self._threads:
            thread.start()

    def publish(self, fires: Sequence[Fire]) -> None:
        """Hands over; what is beyond the capacity is refused. Returns at once."""
        with self._changed:
            if not self._is_running:
                raise RuntimeError("publish: the publisher is not running")
            room = max(0, self._capacity - self._inside)
            taken, refused = fires[:room], fires[room:]
            self._waiting.extend(taken)
            self._inside += len(taken)
            self._changed.notify(len(taken))
            self._reporter.tell(refused, Verdict.NACKED)

    def stop(self, *, timeout_s: float) -> None:
        """Runs what was handed over to its end, for at most ``timeout_s``; then what has not begun is UNSENT.

        A run that takes longer goes on in a daemon thread; its fire is LOST if it has not acquired."""
        with self._changed:
            if not self._is_running:
                return
            self._is_running = False
            self._changed.notify_all()
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        with self._changed:
            self._reporter.tell(self._waiting, Verdict.UNSENT)
            self._reporter.tell(self._undecided.values(), Verdict.LOST)
            self._waiting.clear()
            self._undecided.clear()
        self._reporter.stop()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or not self._is_running)
                if not self._waiting:
                    return
                fire = self._waiting.popleft()
                self._undecided[id(fire)] = fire
            verdict = Verdict.CONFIRMED
            try:
                self._run_fire(fire, lambda fire=fire: self._decide(fire, Verdict.CONFIRMED))  # type: ignore[misc]
            except BaseException:  # of what a task raises nothing may end this thread
                log.exception("the run of fire %s of job %s raised", fire.id, fire.work.job_id)
                verdict = Verdict.LOST
            self._decide(fire, verdict)
            with self._changed:
                self._inside -= 1

    def _decide(self, fire: Fire, verdict: Verdict) -> None:
        """The first verdict on a fire counts."""
        with self._changed:
            if self._undecided.pop(id(fire), None) is not None:
                self._reporter.tell((fire,), verdict)
