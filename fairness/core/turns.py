"""Whose turn it is, and what it is charged: the heart of a fair queue, whose whole is `fairness.core.fair_queue`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import inf
from typing import Generic, TypeVar

from fairness.core.branch import Branch
from fairness.core.node import GRANTED, UNIT, WEIGHT_UNIT, Flow, Node, Ticket
from fairness.core.parking import Parking
from fairness.core.seats import FAR
from fairness.core.tree import Tree

T = TypeVar("T")

MAX_COST, MAX_CAPACITY = 1e7, 1e9
DEBT_S = 10.0  # of a node's share
SURPRISE = 10.0  # estimates: what a request may cost beyond its estimate, and its estimate beyond what it cost


class Turns(Generic[T]):
    """Grants what waits, in fair turns."""

    def __init__(self, *, capacity: float) -> None:
        self.capacity = capacity
        self._tree: Tree[T] = Tree()
        self._parking: Parking[T] = Parking()
        self._aside: list[Branch[T]] = []  # without a turn in this pass
        self._waiting = 0

    @property
    def capacity(self) -> float:
        """The cost that the pool works off in a second (slots, where costs are slot-seconds); it bounds debts.

        Raises ValueError if it is set to less than 0, or out of all bounds.
        """
        return self._capacity

    @capacity.setter
    def capacity(self, capacity: float) -> None:
        if not 0 <= capacity <= MAX_CAPACITY:
            raise ValueError(f"capacity {capacity!r}: must be from 0 to {MAX_CAPACITY:g}")
        self._capacity = capacity
        self._debt = DEBT_S * capacity * UNIT * WEIGHT_UNIT

    def next(self, now: float) -> Ticket[T] | None:
        """Grant the request whose turn it is; None if nothing may go."""
        self._wake(now)
        flow = self._choose(now)
        return None if flow is None else self._grant(flow, now)

    def take(
        self, now: float, limit: int, *, window: float = inf, rooms: Mapping[str, int] | None = None
    ) -> list[Ticket[T]]:
        """Grant up to ``limit`` requests, in their order; fewer only if nothing more may go.

        ``window``: first those whose tenant's tag is at most so far beyond its lane's virtual time (as a cost over a
        weight of 1); if room is left, then anyone. ``rooms``: of these lanes at most so many.
        """
        self._wake(now)
        taken: list[Ticket[T]] = []
        left: dict[Hashable, int] = dict((rooms or {}).items())
        full = self._leave_out(lane for lane, room in left.items() if room <= 0)
        if window < inf:
            self._look_within(window)
            self._grant_up_to(limit, now, taken, left, full)
            self._look_everywhere()
        self._grant_up_to(limit, now, taken, left, full)
        for lane in full:
            lane.make_ready()
        return taken

    def take_behind(self, now: float, limit: int) -> list[Ticket[T]]:
        """Grant up to ``limit`` requests of tenants that are not ahead of virtual time: who has just come, or is owed
        something. Of a flood beside others there is seldom one among them.
        """
        self._wake(now)
        taken: list[Ticket[T]] = []
        self._look_within(0.0)
        self._grant_up_to(limit, now, taken, {}, [])
        self._look_everywhere()
        return taken

    # -- choosing -----------------------------------------------------------------------------------------------

    def _grant_up_to(
        self, limit: int, now: float, taken: list[Ticket[T]], left: dict[Hashable, int], full: list[Branch[T]]
    ) -> None:
        """``left`` has what room lanes have; who has none any more is put into ``full``, and out of turn."""
        for _ in range(limit - len(taken)):
            if (flow := self._choose(now)) is None:
                return
            taken.append(self._grant(flow, now))
            if left and (lane := flow.parent.parent).name in left:
                left[lane.name] -= 1
                if not left[lane.name]:
                    full += self._leave_out((lane.name,))

    def _choose(self, now: float) -> Flow[T] | None:
        """The flow whose turn it is, first at each level."""
        root = self._tree.root
        while isinstance(lane := self._first(root, now), Branch):
            while isinstance(tenant := self._first(lane, now), Branch):
                flow = tenant.first
                if tenant.others is None and isinstance(flow, Flow) and not flow.gates:  # lone, as of most tenants
                    return flow
                if isinstance(flow := self._first(tenant, now), Flow):
                    return flow
        return None

    def _first(self, branch: Branch[T], now: float) -> Node[T] | None:
        """The child whose turn it is, if its gates are open; whoever is refused is parked. None: nobody may go, or none
        within the window.
        """
        while branch.size:
            child = branch.first
            assert child is not None  # what is ready has a seat
            if branch.others is not None:
                if not child.seat or child.tag > child.seat_tag:  # it was charged since
                    branch.seat_first_anew()
                    continue
                if not child.is_ready:
                    self._tree.forget_if_idle(branch.pass_by())
                    continue
            if child.tag > branch.horizon:
                branch.make_unready()
                self._aside.append(branch)
                return None
            for gate in child.gates:
                if (opens_at := gate.opens_at(now)) > now:
                    self._parking.park(child, opens_at, gate.reason, gate)
                    break
            else:
                return child
        return None

    def _wake(self, now: float) -> None:
        for node in self._parking.due(now):
            self._unpark(node)

    def _unpark(self, node: Node[T]) -> None:
        self._parking.unpark(node)
        self._tree.forget_if_idle(node)

    def _leave_out(self, lanes: Iterable[Hashable]) -> list[Branch[T]]:
        """Those of these lanes that were ready, and are so no more."""
        found = [lane for name in lanes if (lane := self._tree.root.children.get(name)) is not None and lane.is_ready]
        for lane in found:
            lane.make_unready()
        return [lane for lane in found if isinstance(lane, Branch)]

    def _look_within(self, window: float) -> None:
        for lane in self._tree.root.children.values():
            assert isinstance(lane, Branch)
            lane.horizon = lane.virtual_time + int(window * UNIT)

    def _look_everywhere(self) -> None:
        for lane in self._tree.root.children.values():
            assert isinstance(lane, Branch)
            lane.horizon = FAR
        for branch in self._aside:
            branch.make_ready()
        self._aside.clear()

    # -- charging -----------------------------------------------------------------------------------------------

    def _grant(self, flow: Flow[T], now: float) -> Ticket[T]:
        """Its oldest ticket goes: charge it to the flow, its tenant and its lane."""
        ticket = flow.pop()
        self._waiting -= 1
        ticket.state = GRANTED
        ticket.charged = cost = ticket.cost
        tenant = flow.parent
        lane = tenant.parent
        ticket.flow_start = flow.serve(cost)
        ticket.tenant_start = start = tenant.serve(cost)
        ticket.lane_start = lane.serve(cost)
        if lane.books is not None:
            lane.books.charge(tenant.name, tenant.tag - start)
        lane.parent.running += 1
        ticket.gates = gates = lane.gates + tenant.gates + flow.gates
        for gate in gates:
            gate.enter(ticket, now)
        if not flow.size:
            flow.make_unready()
        return ticket

    def _settle(self, ticket: Ticket[T], cost: float) -> None:
        """What it costs is known better: correct what was charged, within bounds."""
        before, ticket.charged = ticket.charged, cost
        if cost == before:
            return
        surprise, debt = SURPRISE * ticket.cost, self._debt
        flow = ticket.flow
        tenant = flow.parent
        lane = tenant.parent
        flow.settle(before, cost, surprise, debt)
        change = tenant.settle(before, cost, surprise, debt)
        if lane.books is not None:
            lane.books.charge(tenant.name, change)
        lane.settle(before, cost, surprise, debt)

    def _end(self, ticket: Ticket[T], cost: float) -> None:
        """It is under way no more, and has cost so much."""
        before, ticket.charged = ticket.charged, cost
        surprise, debt = SURPRISE * ticket.cost, self._debt
        flow = ticket.flow
        tenant = flow.parent
        lane = tenant.parent
        flow.end(ticket.flow_start, before, cost, surprise, debt)
        if not (flow.running or flow.size):
            self._tree.forget_if_idle(flow)
        change = tenant.end(ticket.tenant_start, before, cost, surprise, debt)
        if lane.books is not None:
            lane.books.charge(tenant.name, change)
        self._rest(tenant)
        lane.end(ticket.lane_start, before, cost, surprise, debt)
        self._rest(lane)
        lane.parent.running -= 1
        self._rest(lane.parent)

    def _rest(self, branch: Branch[T]) -> None:
        """If nothing in it is ready or under way, everybody in it starts anew."""
        if not (branch.running or branch.size):
            self._tree.rest(branch)
