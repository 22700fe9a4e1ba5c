"""The publisher's twin in memory, for tests and simulations: it keeps what it is given, and the test decides what
became of it.

No thread and no clock: outcomes are reported from the call that decides them. ``stop`` reports what is undecided as
LOST.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduling.broker.port import Report
from scheduling.core.fire import Fire, Outcome, Verdict
from scheduling.core.gates import Queue, lane_of


class MemoryPublisher:
    """Records fires; ``open`` are those without an outcome, ``published`` all, both in the order of publication."""

    def __init__(self) -> None:
        self.open: list[Fire] = []
        self.published: list[Fire] = []
        self._report: Report | None = None

    def start(self, report: Report) -> None:
        """Begins; ``report`` is called by the methods below."""
        self._report = report

    def publish(self, fires: Sequence[Fire]) -> None:
        """Records."""
        if self._report is None:
            raise RuntimeError("publish: the publisher is not running")
        self.open.extend(fires)
        self.published.extend(fires)

    def stop(self, *, timeout_s: float) -> None:  # noqa: ARG002  (nothing here takes time)
        """Ends."""
        self.lose()
        self._report = None

    def confirm(self, *fires: Fire) -> None:
        """The broker confirmed these; without arguments, all that are open."""
        self._decide(fires, Verdict.CONFIRMED)

    def nack(self, *fires: Fire) -> None:
        """The broker refused these; without arguments, all that are open."""
        self._decide(fires, Verdict.NACKED)

    def lose(self, *fires: Fire) -> None:
        """The connection ended before these were confirmed; without arguments, all that are open."""
        self._decide(fires, Verdict.LOST)

    def refuse(self, *fires: Fire) -> None:
        """There was no connection for these; without arguments, all that are open."""
        self._decide(fires, Verdict.UNSENT)

    def _decide(self, fires: Sequence[Fire], verdict: Verdict) -> None:
        decided = list(fires) or list(self.open)
        for fire in decided:
            self.open.remove(fire)  # ValueError: it was never published, or has its outcome already
        if decided and self._report is not None:
            self._report([Outcome(fire, verdict) for fire in decided])


class MemoryQueueWatch:
    """The ``QueueWatch`` whose queues a test fills: messages wait in those of ``full``."""

    def __init__(self) -> None:
        self.full: set[Queue] = set()

    def empty(self, fires: Sequence[Fire]) -> frozenset[Queue]:
        """Those that are not full."""
        return frozenset(lane_of(fire) for fire in fires) - self.full
