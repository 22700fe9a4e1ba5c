"""The fair door before a worker's pool: Celery hands it each request, and it hands them on in their turn.

It stands in the place of `on_task_request`, behind Celery's ETAs and rate limits. Requests wait here, so Celery sees
them as reserved; the pool is given no more than it has slots, and what is handed ahead of short tasks.

A task that is revoked, or has expired, when its turn comes frees its place at once. When the connection is lost, what
waits is dropped, since it will be delivered again. Once the worker ends, nothing goes any more: what waits goes back
with the connection. What the pool ends is learnt from it in its own threads: hence the lock.

While enough is handed ahead, an end is only noted: several are settled at a time, and as many given.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf
from time import monotonic
from typing import Any

from celery.exceptions import TaskRevokedError
from celery.utils.log import get_logger
from celery.worker import state

from fairness.core.door import Door, Errand, Figures
from fairness.core.node import Ticket
from fairness.core.prefetch import Inflows
from fairness.core.terms import TRANSACTIONAL
from fairness.worker.asking import Asking
from fairness.worker.loop import read_what_came, soon
from fairness.worker.pools import Handing
from fairness.worker.sources import Sources

LANES = {TRANSACTIONAL: 9.0}  # to 1 of each other one: what is left of the slots to bulk while both are crowded
MET = 1000  # tenants whose weights are asked for beside those of the queues
SEVERAL = 16  # messages in a turn where ends are settled several at a time; none of the rest waits for more
LOST_S = 5.0  # a request that long under way of which Celery knows nothing any more has ended unseen

log = get_logger(__name__)


class PoolDoor:
    """Of one worker, through all its connections."""

    def __init__(self, c: Any, handing: Handing, sources: Sources, inflows: Inflows, *, by_count: bool) -> None:
        self._c, self._hand, self._sources, self._inflows = c, handing, sources, inflows
        self._lock = threading.RLock()
        self._door: Door[Any] = Door(1, lanes=LANES, now=monotonic(), by_count=by_count, can_queue=handing.can_queue)
        self._ends: deque[tuple[Ticket[Errand[Any]], float]] = deque()  # that the pool has told, and at what times
        self._met: dict[str, None] = {}  # tenants, whom it has known longest first
        self._asking: Asking[Ticket[Errand[Any]]] = Asking(c, on_message=self._coming, on_end=self._answered)
        self._arriving: tuple[Ticket[Errand[Any]], Any] | None = None
        self._aside: dict[str, list[Any]] = {}  # queue → messages asked for that wait for their time, not for a turn
        self._is_inline = handing.is_inline
        self._is_due = self._is_open = False
        self._pumping: set[int] = set()  # threads
        self._wake_at = inf
        self._thread = 0
        c.on_task_request = self.offer

    # -- the worker's life --------------------------------------------------------------------------------------

    def connected(self) -> None:
        """Called in the loop's thread."""
        self._thread = threading.get_ident()
        self._asking.connected()
        self._wake_at = inf
        self._hand.connected(self._shut)
        with self._lock:
            self._door.resize(self._c.pool.num_processes or 1, monotonic())
            self._aside.clear()
            self._is_open = True

    @property
    def messages_a_turn(self) -> int:
        """How many a turn of the loop is to read."""
        return SEVERAL if self._hand.can_queue else 1

    def _shut(self) -> None:
        self._is_open = False

    def disconnected(self) -> None:
        """Of what was given to the pool, that which it has not begun is dropped by Celery, too."""
        with self._lock:
            self._is_open = False
            self._hand.drop()
            self._settle()
            self._door.drop_waiting()
            self._inflows.disconnected()
            self._end_the_lost(0.0)

    def tick(self) -> None:
        """Called twice a second in the loop's thread."""
        now = monotonic()
        with self._lock:
            self._settle()
            self._door.resize(self._c.pool.num_processes or 1, now)
            self._door.tick(now)
            self._end_the_lost(LOST_S)
            since: dict[str, float] = {}  # of each queue the task that runs longest
            for ticket in self._door.running:
                since[ticket.item.queue] = min(ticket.item.since, since.get(ticket.item.queue, now))
            for queue, began in since.items():
                self._inflows.runs(queue, now - began)
        self.pump()

    def info(self) -> dict[str, Any]:
        """For `inspect stats`."""
        with self._lock:
            self._settle()
            return {"slots": self._door.slots, "running": len(self._door.running), "waiting": self._door.waiting}

    def figures(self) -> Figures:
        """For the report. Without a connection, or while it ends, the worker has no slots but those that are taken."""
        with self._lock:
            self._settle()
            found = self._door.figures(monotonic())
        return found if self._is_open else replace(found, slots=found.busy, idle_s=0.0)

    # -- what is known of tenants and queues --------------------------------------------------------------------

    def tenants(self) -> Iterable[str]:
        """Those whose messages came lately."""
        with self._lock:
            return tuple(self._met)

    def weigh(self, weights: Mapping[tuple[str, str], float]) -> None:
        with self._lock:
            for (lane, tenant), weight in weights.items():
                self._door.weigh(lane, tenant, weight)

    def set_queues(self, weights: Mapping[str, float]) -> None:
        with self._lock:
            self._inflows.set_queues(weights)

    def changes(self, slots: int) -> list[tuple[str, int]]:
        """See ``Inflows.changes``."""
        with self._lock:
            self._settle()
            self._inflows.round_trip_s = self._asking.round_trip_s
            return self._inflows.changes(monotonic(), slots=slots, lacks_messages=self._door.was_short())

    def ask(self, queue: str) -> None:
        """Take its messages one by one. Called in the loop's thread, as it may open a channel."""
        self._asking.open()
        source = self._sources.named(queue)
        with self._lock:
            self._door.ask(queue, source.lane, source.tenant or queue, mean_s=self._inflows.mean_s(queue))
        self.pump()

    def withdraw(self, queue: str) -> None:
        with self._lock:
            self._door.withdraw(queue)

    # -- requests -----------------------------------------------------------------------------------------------

    def offer(self, request: Any) -> None:
        """In the place of `on_task_request`."""
        if not self._is_open:
            return  # it came while its connection was being given up, and goes back with that
        message = request.message
        source = self._sources.of(message)
        tenant = self._sources.tenant(message, source)
        path = (source.lane, tenant, request.type)
        now = monotonic()
        with self._lock:
            self._inflows.came(source.queue, now)
            if tenant and tenant not in self._met:
                self._meet(tenant)
            asked = self._taken(message) if self._arriving is not None else None
            if self._aside and message in (aside := self._aside.get(source.queue, [])):
                aside.remove(message)
            if asked is None:
                self._door.offer(request, path, source.queue)
            else:
                self._door.took(asked, request, path, now)
            is_low = self._door.is_low(len(self._ends))
        if asked is not None:
            self._run(asked)
        elif self._is_inline:
            self._pump_soon()
        elif is_low:
            self.pump()

    def pump(self) -> None:
        """Let go whoever may. Within itself it does nothing: whoever is in it goes on."""
        me = threading.get_ident()
        if me in self._pumping:
            return
        self._pumping.add(me)
        try:
            while (ticket := self._next()) is not None:
                if ticket.item.request is None:
                    self._in_loop(self._ask, ticket)
                else:
                    self._run(ticket)
                    if self._is_inline:
                        break
        finally:
            self._pumping.discard(me)
        if self._is_inline and self._door.waiting:
            self._pump_soon()
        if self._door.free > 0 and self._door.next_wake() < self._wake_at:
            self._in_loop(self._wake_up)

    def _next(self) -> Ticket[Errand[Any]] | None:
        with self._lock:
            self._settle()
            if not (self._door.may_give and self._is_open and self._c.pool.active):
                return None  # whoever makes room calls this, too
            return self._door.next(monotonic())

    def _pump_soon(self) -> None:
        """A pool that runs in the loop's thread lets it read in between, or there would be nobody to choose among."""
        if not self._is_due and self._is_open and self._c.pool.active:
            self._is_due = True
            soon(self._c, self._pump_due)

    def _pump_due(self) -> None:
        read_what_came(self._c)
        self._is_due = False
        self.pump()

    def _run(self, ticket: Ticket[Errand[Any]]) -> None:
        try:
            self._hand(ticket.item.request, lambda: self._over(ticket))
        except TaskRevokedError:
            self._end_unrun(ticket)
        except BaseException:
            self._end_unrun(ticket)
            raise

    def _over(self, ticket: Ticket[Errand[Any]]) -> None:
        """The pool has a free slot; called in whatever thread."""
        self._ends.append((ticket, monotonic()))
        if not self._is_inline and self._door.is_low(len(self._ends)):
            self.pump()

    def _end_unrun(self, ticket: Ticket[Errand[Any]]) -> None:
        with self._lock:
            self._end(ticket, monotonic(), has_run=False)

    def _settle(self) -> None:
        """What has ended. With the lock."""
        while self._ends:
            ticket, at = self._ends.popleft()
            self._end(ticket, at, has_run=True)

    def _end(self, ticket: Ticket[Errand[Any]], now: float, *, has_run: bool) -> None:
        took_s = self._door.ended(ticket, now, has_run=has_run)
        if took_s is not None:
            self._inflows.went(ticket.item.queue, took_s if has_run else None, now)

    def _end_the_lost(self, after_s: float) -> None:
        """A pool of processes that was flushed forgets what it had not begun, and calls nobody."""
        if not self._hand.forgets:
            return
        now = monotonic()
        for ticket in self._door.given:
            if now - ticket.item.since >= after_s and ticket.item.request not in state.reserved_requests:
                self._end(ticket, now, has_run=False)

    def _meet(self, tenant: str) -> None:
        self._met[tenant] = None
        if len(self._met) > MET:
            del self._met[next(iter(self._met))]

    # -- asks ---------------------------------------------------------------------------------------------------

    def _ask(self, ticket: Ticket[Errand[Any]]) -> None:
        with self._lock:
            is_asked = self._door.is_asked(ticket)  # not if the connection was lost since
            if is_asked and self._has_enough_aside(ticket.item.queue):
                self._door.vain(ticket, monotonic())
                is_asked = False
        if is_asked:
            self._asking.ask(ticket, ticket.item.queue)

    def _has_enough_aside(self, queue: str) -> bool:
        """A rate limit, or an ETA, holds as many of its messages as there are slots: no prefetch bounds these here."""
        aside = [message for message in self._aside.pop(queue, ()) if not message.acknowledged]
        if aside:
            self._aside[queue] = aside
        return len(aside) >= self._door.slots

    def _taken(self, message: Any) -> Ticket[Errand[Any]] | None:
        """The ask that brought this message. Another one may come in between: one that a rate limit held up."""
        if self._arriving is None:
            return None
        ticket, arriving = self._arriving
        if arriving is not message:
            return None
        self._arriving = None
        return ticket

    def _coming(self, ticket: Ticket[Errand[Any]], message: Any) -> None:
        self._arriving = (ticket, message)

    def _answered(self, ticket: Ticket[Errand[Any]], is_empty: bool) -> None:
        """Its message runs, or none does."""
        now = monotonic()
        queue = ticket.item.queue
        with self._lock:
            arriving, self._arriving = self._arriving, None
            is_taken = not is_empty and arriving is None
            if is_empty:
                self._inflows.empty(queue, now)
            elif arriving is not None and not arriving[1].acknowledged:
                self._aside.setdefault(queue, []).append(arriving[1])
            if not is_taken:
                self._door.vain(ticket, now, is_empty=is_empty)
        self.pump()

    def _wake_up(self) -> None:
        """Look again once an empty queue may be asked again; in the loop's thread."""
        with self._lock:
            at = self._door.next_wake()
            if at < self._wake_at:
                self._wake_at = at
                self._c.timer.call_after(max(at - monotonic(), 0.001), self._woken)

    def _woken(self) -> None:
        self._wake_at = inf
        self.pump()

    def _in_loop(self, function: Callable[..., None], *args: Any) -> None:
        """Only the loop's thread may use the channel and the timer; greenlets all may."""
        if threading.get_ident() == self._thread or getattr(self._c.pool, "is_green", False):
            function(*args)
        else:
            self._c.call_soon(function, *args)
