"""The broker and the workers: one line before so many slots; first come first served, or in fair turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from benchmarks.fair_simulation.events import Events
from fairness.core.depth import Report
from fairness.core.estimates import Estimates
from fairness.core.fair_queue import FairQueue
from fairness.core.node import Ticket
from fairness.core.shares import jain


@dataclass(slots=True)
class Request:
    """Worth ``seconds`` of a slot. ``ended`` is called when they are over."""

    tenant: int
    seconds: float
    offered_at: float
    started_at: float | None = None
    is_watched: bool = False  # its start latency is kept
    ended: Callable[[], None] = field(default=lambda: None)


class Line:
    """First come, first served."""

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def come(self, request: Request) -> None:
        self._waiting.append(request)

    def go(self) -> Request:
        return self._waiting.popleft()

    def over(self, request: Request) -> None:
        pass


class Door(Line):
    """In fair turns: the fair door of a worker, here of all workers together."""

    def __init__(self, slots: int, weights: Mapping[int, float]) -> None:
        self._queue: FairQueue[Request] = FairQueue(capacity=slots)
        self._estimates = Estimates(first=0.1)
        self._running: dict[int, Ticket[Request]] = {}
        for tenant, weight in weights.items():
            self._queue.set_weight(("bulk", tenant), weight)

    def __len__(self) -> int:
        return len(self._queue)

    def come(self, request: Request) -> None:
        path = ("bulk", request.tenant, "task")
        self._queue.offer(request, path, self._estimates.of(path))

    def go(self) -> Request:
        (ticket,) = self._queue.take(0.0, 1)
        self._running[id(ticket.item)] = ticket
        return ticket.item

    def over(self, request: Request) -> None:
        ticket = self._running.pop(id(request))
        self._estimates.learn(ticket.path, request.seconds)
        self._queue.finished(ticket, request.seconds)


class Workers:
    """``slots`` run what has come. What was served is kept by whole seconds."""

    def __init__(self, events: Events, slots: int, line: Line) -> None:
        self.events = events
        self.slots = slots
        self.busy = 0
        self.line = line
        self.latencies: list[float] = []  # of those that are watched: from their offer to their start
        self.by_second: list[dict[int, float]] = []
        self._running: dict[int, tuple[float, Request]] = {}
        self._reported_at = 0.0
        self._ran, self._ran_s = 0, 0.0
        self._busy_s, self._busy_since = 0.0, 0.0

    def come(self, request: Request) -> None:
        self.line.come(request)
        if self.busy < self.slots:
            self._start(self.line.go())

    def _start(self, request: Request) -> None:
        now = self.events.now
        self._count_busy()
        self.busy += 1
        if request.is_watched:
            self.latencies.append(now - request.offered_at)
        request.started_at = now
        self._running[id(request)] = (now, request)
        self.events.after(request.seconds, partial(self._end, request))

    def _end(self, request: Request) -> None:
        began, _ = self._running.pop(id(request))
        self._count_busy()
        self.busy -= 1
        self._serve(request.tenant, began)
        self._ran += 1
        self._ran_s += request.seconds
        self.line.over(request)
        if self.line:
            self._start(self.line.go())
        request.ended()

    def _serve(self, tenant: int, began: float) -> None:
        """Add the span from then until now, second by second."""
        now = self.events.now
        while len(self.by_second) <= int(now):
            self.by_second.append({})
        while began < now:
            second = int(began)
            upto = min(now, second + 1.0)
            of_second = self.by_second[second]
            of_second[tenant] = of_second.get(tenant, 0.0) + upto - began
            began = upto

    def _count_busy(self) -> None:
        now = self.events.now
        self._busy_s += self.busy * (now - self._busy_since)
        self._busy_since = now

    def report(self) -> Report:
        """Of the time since the last one, as a worker's bootstep gives it."""
        self._count_busy()
        interval_s = self.events.now - self._reported_at
        report = Report(
            slots=self.slots,
            busy=self.busy,
            waiting=len(self.line),
            idle_s=max(0.0, self.slots * interval_s - self._busy_s),
            interval_s=interval_s,
            ran=self._ran,
            ran_s=self._ran_s,
        )
        self._reported_at = self.events.now
        self._ran, self._ran_s, self._busy_s = 0, 0.0, 0.0
        return report

    # -- figures ----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """What runs now has been served so far: before figures are asked for. The simulation is over then."""
        for began, request in self._running.values():
            self._serve(request.tenant, began)
        self._running.clear()

    def served(self, since: int, until: int) -> dict[int, float]:
        """Slot-seconds by tenant, from second to second."""
        total: dict[int, float] = {}
        for of_second in self.by_second[since:until]:
            for tenant, seconds in of_second.items():
                total[tenant] = total.get(tenant, 0.0) + seconds
        return total

    def shares(self, since: int, until: int) -> dict[int, float]:
        served = self.served(since, until)
        whole = sum(served.values())
        return {tenant: seconds / whole for tenant, seconds in sorted(served.items())}

    def idle(self, since: int, until: int) -> float:
        """The part of the slots."""
        return 1 - sum(self.served(since, until).values()) / (self.slots * (until - since))

    def jain(self, weights: dict[int, float], since: int, until: int) -> float:
        """Jain's index of slot-time over weight."""
        served = self.served(since, until)
        return jain(served.get(tenant, 0.0) / weight for tenant, weight in weights.items())

    def worst_second(self, weights: dict[int, float], since: int, until: int) -> float:
        return min(self.jain(weights, second, second + 1) for second in range(since, until))
