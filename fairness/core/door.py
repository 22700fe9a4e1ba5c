"""The fair door of a worker: which of the messages that it holds, or could have, goes to its pool next.

::

    held:    offer ──> waits for its turn ──next──> (handed ahead) ──> runs ──ended──> over
    not yet: ask ──> waits for its queue's turn ──next──> asked for ── took ──> runs ──ended──> over
                       ^──── later, by a growing delay ──── vain ─┘

A message that the broker has delivered is *offered*. Of a queue whose messages are not delivered, since they run long,
there is a standing *ask*: when its turn comes, one message is to be taken from that queue, and runs in the ask's place.
So what runs long is nowhere held that could run elsewhere.

Turns are those of a ``FairQueue``: lanes by their weights, then tenants by theirs, oldest first within a tenant. A
request is charged what the last ones of its tenant and task have taken, and settled by what it took.

A slot whose task is over sleeps until it is given the next one. Where tasks take no longer than that, some are *handed
ahead*: to a pool whose own queue is first in, first out, so the eldest of them begins as one that runs has ended. Of
their order nothing can be changed any more, so they are few: not more than two a slot, nor than take it 20 ms by the
mean of the latest tasks; none that is expected to take longer itself; and none where a queue is asked. So much longer
waits who has just come.

Invariants: no more than ``slots`` run or are asked for, and none is handed ahead while fewer do; whatever ``next`` gave
out is ended, taken or in vain, once. What it does not do: it reads no clock, and knows nothing of pools, channels or
Celery. One thread at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fairness.core.estimates import Estimates
from fairness.core.fair_queue import MIN_COST, FairQueue
from fairness.core.node import Ticket
from fairness.core.tree import FlowPath

R = TypeVar("R")

FIRST_S = 0.05  # expected of a task while nothing is known
HELD = ""  # the key of a tenant's flow of messages; those of its asks are names of queues
EMPTY = "empty"
SOONEST_S, LATEST_S = 0.02, 0.25  # after an answer that there is nothing; doubled in between
ASKS_PER_S = 200  # of all queues together, while nothing comes
AHEAD_S = 0.02  # of a slot's time that what is handed ahead of it takes
MOST_AHEAD = 2  # for each slot
LATEST = 0.05  # what the latest task counts for in the mean of all


@dataclass(slots=True)
class Errand(Generic[R]):
    """What a ticket stands for. ``path``: lane, tenant and task, as far as they are known."""

    queue: str
    path: FlowPath
    request: R | None  # None: an ask
    expected_s: float = 0.0
    since: float = 0.0  # when it began, or was given out


@dataclass(frozen=True, slots=True)
class Figures:
    """Of the time since the last ones."""

    slots: int
    busy: int
    waiting: int
    interval_s: float
    idle_s: float
    ran: int
    ran_s: float


class Door(Generic[R]):
    """``lanes``: their weights, 1 for one that is not named. ``by_count``: each request costs the same.
    ``can_queue``: the pool begins what it was given in that order, as slots get free.
    """

    def __init__(
        self, slots: int, *, lanes: Mapping[str, float], now: float, by_count: bool = False, can_queue: bool = False
    ) -> None:
        self._queue: FairQueue[Errand[R]] = FairQueue(capacity=slots)
        self._slots = self._free = slots
        self._by_count, self._can_queue = by_count, can_queue
        self._estimates = Estimates(first=FIRST_S)
        self._weights: dict[tuple[str, str], float] = {}
        self._running: set[Ticket[Errand[R]]] = set()
        self._ahead: OrderedDict[Ticket[Errand[R]], None] = OrderedDict()  # the eldest first
        self._mean_s = FIRST_S  # of the latest tasks
        self._most_ahead = 0
        self._is_long_next = False  # whose turn it is needs a free slot
        self._was_short = False
        self._asks: dict[str, Ticket[Errand[R]]] = {}  # queue → its standing ask
        self._delays: dict[str, float] = {}  # of queues that were found empty
        self._out: set[Ticket[Errand[R]]] = set()  # asks that are not answered yet
        self._held = 0
        self._since = now
        self._busy_s = self._ran_s = 0.0
        self._ran = 0
        for lane, weight in lanes.items():
            self._queue.set_weight((lane,), weight)

    @property
    def slots(self) -> int:
        """How many may be under way. If more are, none goes until enough have ended."""
        return self._slots

    def resize(self, slots: int, now: float) -> None:
        if slots != self._slots:
            self._free += slots - self._slots
            self._slots, self._queue.capacity = slots, float(slots)
            self._begin_those_ahead(now)

    @property
    def free(self) -> int:
        """Slots for which nothing is under way; below 0 where there were more."""
        return self._free

    @property
    def may_give(self) -> bool:
        """Whether ``next`` may have something."""
        if self._free:
            return self._free > 0 and (self._held > 0 or bool(self._asks))
        return len(self._ahead) < self._most_ahead and self._held > 0 and not self._is_long_next

    def was_short(self) -> bool:
        """Whether more could run, or be handed ahead, than is here; or could as a task ended, since this was asked."""
        found, self._was_short = self._was_short or self._is_short, False
        return found

    def is_low(self, ends: int) -> bool:
        """Whether it is time to give: slots are free, or half of what may be handed ahead is not there. ``ends``: how
        many more are over than it was told yet.
        """
        return self._free > 0 or 2 * (len(self._ahead) - ends) <= self._most_ahead

    @property
    def waiting(self) -> int:
        """Messages that are here, and do not run."""
        return self._held + len(self._ahead)

    @property
    def running(self) -> tuple[Ticket[Errand[R]], ...]:
        return tuple(self._running)

    @property
    def given(self) -> tuple[Ticket[Errand[R]], ...]:
        """To the pool, and not over: what runs, and what was handed ahead."""
        return (*self._running, *self._ahead)

    def weigh(self, lane: str, tenant: str, weight: float) -> None:
        """A tenant's weight in a lane counts from now, for all that waits."""
        if self._weights.get((lane, tenant)) != weight:
            self._weights[lane, tenant] = weight
            self._queue.set_weight((lane, tenant), weight)
            self._queue.set_weight((lane, tenant, HELD), 1.0)  # kept: it runs empty with nearly each message

    # -- turns --------------------------------------------------------------------------------------------------

    def offer(self, request: R, path: FlowPath, queue: str) -> None:
        """A message is here, from this queue."""
        lane, tenant, _ = path
        expected_s = self._estimates.of(path)
        cost = 1.0 if self._by_count else expected_s
        self._queue.offer(Errand(queue, path, request, expected_s), (lane, tenant, HELD), cost)
        self._held += 1

    def ask(self, queue: str, lane: str, tenant: str, *, mean_s: float) -> None:
        """From now on a message of this queue is taken at its turn, again and again; each runs about so long."""
        self._most_ahead = 0
        if queue not in self._asks:
            self._stand(Errand(queue, (lane, tenant, ""), None), 1.0 if self._by_count else max(mean_s, MIN_COST))

    def withdraw(self, queue: str) -> None:
        """No longer. One that is asked for already may still come."""
        ticket = self._asks.pop(queue, None)
        self._delays.pop(queue, None)
        if ticket is not None:
            self._queue.forget(_flow_of_ask(ticket.item))

    def next(self, now: float) -> Ticket[Errand[R]] | None:
        """Whose turn it is; None if there is no room, or nothing may go. A ticket without a request is an ask."""
        if not self.may_give or (ticket := self._queue.next(now)) is None:
            return None
        errand = ticket.item
        if self._free <= 0:
            return self._hand_ahead(ticket, now)
        self._free -= 1
        if errand.request is None:
            self._out.add(ticket)
        else:
            self._held -= 1
            self._begin(ticket, now)
        return ticket

    def _hand_ahead(self, ticket: Ticket[Errand[R]], now: float) -> Ticket[Errand[R]] | None:
        errand = ticket.item
        if errand.expected_s > AHEAD_S:
            self._queue.refund(ticket)
            self._is_long_next = True
            return None
        self._held -= 1
        errand.since = now
        self._queue.started(ticket)
        self._ahead[ticket] = None
        return ticket

    def is_asked(self, ticket: Ticket[Errand[R]]) -> bool:
        """Whether its answer is waited for."""
        return ticket in self._out

    def next_wake(self) -> float:
        """When an empty queue may be asked again; ``inf``: none waits for that."""
        return self._queue.next_wake()

    def took(self, ticket: Ticket[Errand[R]], request: R, path: FlowPath, now: float) -> None:
        """What was asked for came, and runs in the place of its ask. The next one may be asked for."""
        errand = ticket.item
        self._out.discard(ticket)
        is_standing = self._asks.get(errand.queue) is ticket
        errand.request, errand.path, ask = request, path, Errand[R](errand.queue, errand.path, None)
        self._begin(ticket, now)
        self._delays.pop(errand.queue, None)
        if is_standing:
            self._stand(ask, ticket.cost)

    def vain(self, ticket: Ticket[Errand[R]], now: float, *, is_empty: bool = True) -> None:
        """Nothing came that runs. It is asked again, and if its queue is empty, after a while that grows."""
        if ticket not in self._out:
            return
        errand = ticket.item
        self._out.discard(ticket)
        self._free += 1
        if self._queue.refund(ticket) and is_empty:
            latest_s = max(LATEST_S, len(self._asks) / ASKS_PER_S)
            delay_s = min(self._delays.get(errand.queue, SOONEST_S / 2) * 2, latest_s)
            self._delays[errand.queue] = delay_s
            self._queue.park(_flow_of_ask(errand), now + delay_s, EMPTY)

    def ended(self, ticket: Ticket[Errand[R]], now: float, *, has_run: bool = True) -> float | None:
        """It is over: its slot is free, and it is charged what it took, which is returned. None: it was over before.

        ``has_run`` False: it was revoked, or had expired. It is charged next to nothing, and nothing is learnt of it.
        """
        errand = ticket.item
        if ticket in self._running:
            self._running.remove(ticket)
            self._free += 1
            took_s = max(now - errand.since, 0.0)
            self._busy_s += max(now - max(errand.since, self._since), 0.0)
            self._begin_those_ahead(now)
            if self._held == 0 and not self._asks and self._is_short:
                self._was_short = True
        elif ticket in self._ahead:  # dropped by the pool, which is ending or was flushed
            del self._ahead[ticket]
            has_run, took_s = False, 0.0
        else:
            return None
        self._is_long_next = False
        if not has_run:
            self._queue.finished(ticket, 0.0)
            return 0.0
        self._queue.finished(ticket, 1.0 if self._by_count else took_s)
        self._estimates.learn(errand.path, took_s)
        self._mean_s += LATEST * (took_s - self._mean_s)
        self._ran += 1
        self._ran_s += took_s
        return took_s

    def tick(self, now: float) -> None:
        """Now and then: those that run longer than expected pay as they go, and as much is handed ahead as is right."""
        if not self._by_count:
            for ticket in self._running:
                self._queue.charge(ticket, now - ticket.item.since)
        self._most_ahead = 0
        if self._can_queue and not self._asks:
            self._most_ahead = int(min(AHEAD_S / max(self._mean_s, MIN_COST), MOST_AHEAD)) * self._slots

    def drop_waiting(self) -> list[R]:
        """The connection is lost: what is held will be delivered again, and no answer comes. What runs, runs on."""
        for ticket in tuple(self._out):
            self.vain(ticket, 0.0, is_empty=False)
        for queue in tuple(self._asks):
            self.withdraw(queue)
        self._held = 0
        return [errand.request for errand in self._queue.remove_if(lambda _: True) if errand.request is not None]

    # -- figures ------------------------------------------------------------------------------------------------

    def figures(self, now: float) -> Figures:
        """Since it was asked last."""
        interval_s = now - self._since
        busy_s = self._busy_s + sum(now - max(ticket.item.since, self._since) for ticket in self._running)
        idle_s = max(self._slots * interval_s - busy_s, 0.0)
        found = Figures(self._slots, len(self._running), self.waiting, interval_s, idle_s, self._ran, self._ran_s)
        self._since, self._busy_s, self._ran, self._ran_s = now, 0.0, 0, 0.0
        return found

    @property
    def _is_short(self) -> bool:
        return self._free > 0 or (self._held == 0 and len(self._ahead) < self._most_ahead)

    def _begin_those_ahead(self, now: float) -> None:
        while self._ahead and self._free > 0:
            ticket, _ = self._ahead.popitem(last=False)
            self._free -= 1
            ticket.item.since = now
            self._running.add(ticket)

    def _begin(self, ticket: Ticket[Errand[R]], now: float) -> None:
        ticket.item.since = now
        self._queue.started(ticket)
        self._running.add(ticket)

    def _stand(self, ask: Errand[R], cost: float) -> None:
        self._asks[ask.queue] = self._queue.offer(ask, _flow_of_ask(ask), cost)


def _flow_of_ask(errand: Errand[Any]) -> FlowPath:
    lane, tenant, _ = errand.path
    return (lane, tenant, errand.queue)
