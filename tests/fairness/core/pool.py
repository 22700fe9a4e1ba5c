"""Workers in simulated time, which take from a real fair queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from fairness.core.fair_queue import FairQueue
from fairness.core.node import Ticket
from fairness.core.tree import FlowPath


@dataclass(frozen=True, slots=True)
class Run:
    """One request that is worth ``seconds`` of a slot."""

    path: FlowPath
    seconds: float


@dataclass(frozen=True, slots=True)
class Served:
    """A span of a slot."""

    path: FlowPath
    began: float
    ended: float


class Pool:
    """So many slots, each busy whenever the queue gives something. Time is ``now``."""

    def __init__(self, queue: FairQueue[Run], slots: int) -> None:
        self.queue = queue
        self.slots = slots
        self.now = 0.0
        self.log: list[Served] = []
        self._under_way: list[tuple[float, int, float, Ticket[Run]]] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.told_every_s = 0.0  # how often a run that is under way is charged so far; 0: never
        self.estimate: Callable[[FlowPath], float] | None = None  # of whatever is offered without one; else it is right
        self.learn: Callable[[FlowPath, float], None] = lambda _path, _cost: None
        self.cost_of: Callable[[Run], float] = lambda run: run.seconds
        self.refill: dict[FlowPath, Callable[[], None]] = {}  # what is done when one of a flow has finished

    def offer(self, path: FlowPath, seconds: float, *, estimate: float | None = None, times: int = 1) -> None:
        for _ in range(times):
            if estimate is None:
                estimate = seconds if self.estimate is None else self.estimate(path)
            self.queue.offer(Run(path, seconds), path, estimate)

    def at(self, when: float, do: Callable[[], None]) -> None:
        heappush(self._events, (when, next(self._numbers), do))

    def every(self, period: float, do: Callable[[], None]) -> None:
        def again() -> None:
            do()
            self.at(self.now + period, again)

        self.at(self.now + period, again)

    def run_until(self, end: float) -> None:
        if self.told_every_s and not self.now:
            self.every(self.told_every_s, self._tell)
        while True:
            self._fill()
            soonest = min(
                self._under_way[0][0] if self._under_way else end,
                self._events[0][0] if self._events else end,
                max(self.queue.next_wake(), self.now + 1e-6),
            )
            if soonest >= end:
                self.now = end
                return
            self.now = soonest
            while self._events and self._events[0][0] <= self.now:
                heappop(self._events)[2]()
            while self._under_way and self._under_way[0][0] <= self.now:
                _, _, began, ticket = heappop(self._under_way)
                self.log.append(Served(ticket.item.path, began, self.now))
                self.queue.finished(ticket, self.cost_of(ticket.item))
                self.learn(ticket.item.path, ticket.item.seconds)
                if refill := self.refill.get(ticket.item.path):
                    refill()

    def served(self, since: float = 0.0, until: float | None = None) -> dict[FlowPath, float]:
        """Slot-seconds of each flow in the span, those of runs under way included."""
        until = self.now if until is None else until
        spans = [*self.log, *(Served(ticket.item.path, began, end) for end, _, began, ticket in self._under_way)]
        total: dict[FlowPath, float] = {}
        for span in spans:
            seconds = min(span.ended, until) - max(span.began, since)
            if seconds > 0:
                total[span.path] = total.get(span.path, 0.0) + seconds
        return total

    def granted(self, until: float) -> dict[FlowPath, float]:
        """The whole of each run that had begun by then, in slot-seconds; of what has finished by now."""
        total: dict[FlowPath, float] = {}
        for span in self.log:
            if span.began <= until:
                total[span.path] = total.get(span.path, 0.0) + span.ended - span.began
        return total

    def shares(self, since: float = 0.0, until: float | None = None) -> dict[str, float]:
        """Of each tenant in all that was served in the span."""
        served = self.served(since, until)
        whole = sum(served.values())
        shares: dict[str, float] = {}
        for path, seconds in served.items():
            shares[str(path[1])] = shares.get(str(path[1]), 0.0) + seconds / whole
        return shares

    def _fill(self) -> None:
        for ticket in self.queue.take(self.now, self.slots - len(self._under_way)):
            self.queue.started(ticket)
            end = self.now + ticket.item.seconds
            heappush(self._under_way, (end, next(self._numbers), self.now, ticket))

    def _tell(self) -> None:
        for _, _, began, ticket in self._under_way:
            self.queue.charge(ticket, self.now - began)
