"""Scheduler nodes: each with a fair queue of its own, and what it may release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.fair_simulation.events import Events
from benchmarks.fair_simulation.workers import Door, Line, Request, Workers
from fairness.core.board import Board
from fairness.core.depth import Depth
from fairness.core.estimates import Estimates
from fairness.core.exchange import Told
from fairness.core.fair_queue import FairQueue
from fairness.core.local_exchange import LocalExchange
from fairness.core.node import UNIT, Ticket
from fairness.core.tree import FlowPath

LANE = "bulk"
CHARGED_S = 0.25  # between two charges of what runs
HEADS = 8  # of a flood, that a node holds


def path_of(tenant: int) -> FlowPath:
    return LANE, tenant, "task"


@dataclass(frozen=True, slots=True)
class Rules:
    """How it is shared. ``cost`` None: in slot-seconds, by estimate, settled at the end; else all cost as much."""

    depth: int | None = None  # None: by what workers report
    round_trip_s: float = 0.0  # from the end of a request until the next is in its slot
    cost: float | None = None
    learns: bool = False  # estimates by what has ended; else they are right in the mean
    head_start: int = 0  # requests of tenants that have just come, beyond a node's places
    has_door: bool = False  # workers take in fair turns what has come to them
    sync_s: float | None = None  # between two exchanges of a node; None: each has its part of the depth


class Node:
    """Offers go to its queue; grants to the workers, half a round trip later; ends are seen half of one later."""

    def __init__(self, events: Events, workers: Workers, rules: Rules, weights: Mapping[int, float]) -> None:
        self.events = events
        self.workers = workers
        self.rules = rules
        self.queue: FairQueue[Request] = FairQueue(capacity=workers.slots)
        self.estimates = Estimates(first=0.1)
        self.places = rules.depth or workers.slots  # how many it may have in flight
        self.in_flight = 0
        self.with_workers: dict[Ticket[Request], None] = {}
        self.mean_s: dict[int, float] = {}  # of a tenant's requests, where that is told and not learned
        self.refill: dict[int, Callable[[], Request]] = {}  # of floods: another for each that went
        for tenant, weight in weights.items():
            self.queue.set_weight((LANE, tenant), weight)

    def offer(self, request: Request) -> None:
        path = path_of(request.tenant)
        if self.rules.cost is not None:
            cost = self.rules.cost
        elif self.rules.learns:
            cost = self.estimates.of(path)
        else:
            cost = self.mean_s[request.tenant]
        self.queue.offer(request, path, cost)

    def flood(self, tenant: int, make: Callable[[], Request]) -> None:
        """It has more waiting than will ever go."""
        self.refill[tenant] = make
        for _ in range(HEADS):
            self.offer(make())
        self.pump()

    def pump(self) -> None:
        """Grant what there are places for; and beyond them a few of those who have just come."""
        now = self.events.now
        while (room := self.places - self.in_flight) > 0:
            if not self._release_all(self.queue.take(now, min(room, HEADS // 2))):
                return
        if (room := self.places + self.rules.head_start - self.in_flight) > 0:
            self._release_all(self.queue.take_behind(now, room))

    def _release_all(self, tickets: list[Ticket[Request]]) -> int:
        for ticket in tickets:
            self._release(ticket)
            if (make := self.refill.get(ticket.item.tenant)) is not None:
                self.offer(make())
        return len(tickets)

    def _release(self, ticket: Ticket[Request]) -> None:
        self.in_flight += 1
        half_s = self.rules.round_trip_s / 2
        ticket.item.ended = partial(self.events.after, half_s, partial(self._seen_over, ticket))
        self.events.after(half_s, partial(self._come, ticket))

    def _come(self, ticket: Ticket[Request]) -> None:
        self.queue.started(ticket)
        self.with_workers[ticket] = None
        self.workers.come(ticket.item)

    def charge(self) -> None:
        """Those that run are paid for as they go."""
        if self.rules.cost is None:
            for ticket in self.with_workers:
                if (began := ticket.item.started_at) is not None:
                    self.queue.charge(ticket, self.events.now - began)

    def _seen_over(self, ticket: Ticket[Request]) -> None:
        seconds = ticket.item.seconds
        self.in_flight -= 1
        del self.with_workers[ticket]
        self.estimates.learn(path_of(ticket.item.tenant), seconds)
        self.queue.finished(ticket, seconds if self.rules.cost is None else self.rules.cost)
        self.pump()


class World:
    """One pool of workers and the nodes before it. ``rules`` of all nodes; ``placed``: on which nodes a tenant is."""

    def __init__(self, *, slots: int, rules: Rules, weights: Mapping[int, float], nodes: int = 1) -> None:
        self.events = Events()
        self.workers = Workers(self.events, slots, Door(slots, weights) if rules.has_door else Line())
        self.rules = rules
        self.weights = dict(weights)
        self.nodes = [Node(self.events, self.workers, rules, weights) for _ in range(nodes)]
        self.depth = Depth()
        self.latest = rules.depth or slots  # the depth of all nodes together
        self._share(self.latest)
        for node in self.nodes:
            self.events.every(CHARGED_S, node.charge)
        if rules.depth is None:
            self.events.every(1.0, self._look, first=0.5)
        if rules.sync_s is not None:
            board = Board()
            for number, node in enumerate(self.nodes):
                exchange = LocalExchange(board, node=f"n{number}", clock=lambda: self.events.now)
                node.queue.share(LANE)
                node.places = 0
                first = rules.sync_s * number / nodes
                self.events.every(rules.sync_s, partial(self._exchange, node, exchange), first=first)

    def set_weight(self, tenant: int, weight: float) -> None:
        self.weights[tenant] = weight
        for node in self.nodes:
            node.queue.set_weight((LANE, tenant), weight)

    def run_until(self, end: float) -> None:
        self.events.run_until(end)

    def done(self) -> Workers:
        """Figures can be asked for; it goes no further."""
        self.workers.settle()
        return self.workers

    def _share(self, depth: int) -> None:
        """Each has its part, where they do not ask each other."""
        self.latest = depth
        if self.rules.sync_s is None:
            each, left = divmod(depth, len(self.nodes))
            for number, node in enumerate(self.nodes):
                node.places = each + (number < left)
                node.pump()

    def _look(self) -> None:
        self.depth.look(
            self.events.now,
            [self.workers.report()],
            is_ready=any(len(node.queue) for node in self.nodes),
            round_trip_s=self.rules.round_trip_s,
            in_flight=sum(node.in_flight for node in self.nodes),
        )
        if self.depth.depth is not None:
            self._share(self.depth.depth)

    def _exchange(self, node: Node, exchange: LocalExchange) -> None:
        queue = node.queue
        way_s = self.rules.round_trip_s if self.rules.cost is None else 0.0
        told = Told(
            lane=LANE,
            charges=queue.charges(LANE),
            rows=[replace(row, way=way_s) for row in queue.rows(LANE)],
            virtual_time=queue.virtual_time((LANE,)) / UNIT,
            in_flight=node.in_flight,
            wants=len(queue),
            depth=self.latest,
        )
        (settled,) = exchange.exchange([told])
        queue.adopt(LANE, settled.tags, settled.virtual_time)
        node.places = settled.places
        node.pump()
