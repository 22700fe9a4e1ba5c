"""Who goes next: hierarchical start-time fair queueing with a depth, SFQ(D), over lanes, tenants and keys.

The idea
--------
A pool of workers is shared by weight if nobody's service runs ahead of its weight. So each node (a lane, a tenant in
it, a key of that tenant) has a *tag*: all the cost that it was charged, over its weight. The least tag goes next, lane
first, then tenant, then key; it is charged the *estimated* cost of its request there and then, and the estimate is
settled once the request has finished. ``D`` requests are under way at once, so tags run ahead of what has really been
consumed, by no more than those D. A backlogged node's share is then its weight's, whatever its requests cost.

*Virtual time* is the tag at which service starts now. Whoever comes, or comes back, starts there: nobody saves up while
away, and a light tenant goes before all who were served since.

A worked example
----------------
a has weight 1, b weight 2; each request costs 6. Tags start at 0 : 0::

    a goes first   6 : 0          tag of a: 6 / 1
    b              6 : 3          tag of b: 6 / 2
    b              6 : 6
    a (in order)  12 : 6          and so on: two of b for each of a

A request of b took 2, not 6: its tag falls by 4 / 2, so that b has another turn sooner. Then c comes: its tag starts at
6, the virtual time, and not at 0.

Rules
-----
- **Tags belong to nodes, never to requests**: a changed weight counts at once, for the whole backlog. What a node is
  ahead by is restated at its new weight.
- **Checks**: whether a node is parked, then its gates in their order, lane, tenant, key. All are asked before one is
  entered. A node that is refused is *parked* until the time that its gate named, or until somebody leaves that gate; it
  costs nothing meanwhile, and gives one reason for all that waits in it.
- **Work conservation**: whoever may go goes, however far ahead its tag. Given a window, ``take`` makes two passes:
  first those whose tag is within it, then anyone.
- **Debt is bounded**, and so is credit: a settlement moves a tag no further from virtual time than ten seconds of the
  node's share, or ten of the request's estimates if that is more. ``charge`` tells of long requests while they run, so
  that they are paid for as they go. A request is charged at least a tenth of its estimate: none is free.
- **Refund**: a request that was not taken (a nack) is charged nothing, and is the oldest of its flow again.
- **Nothing is kept of the idle**, once virtual time has passed their tags, or nothing waits or is under way beside
  them; but for nodes with a weight or gates of their own, which stay until they are forgotten.

What it does not do: it reads no clock, counts no D (that is ``limit``, or a ``Cap`` among the lane's gates), and orders
nothing within a flow. One thread owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heapreplace
from itertools import count
from math import inf, isnan
from typing import Generic, TypeVar

from fairness.core.gate import Gate
from fairness.core.node import FAR, TURN, UNIT, WEIGHT_UNIT, Branch, Flow, Node, State, Ticket, orders, weight_units
from fairness.core.parking import Parking
from fairness.core.tree import FlowPath, Path, Tree, below

T = TypeVar("T")

MIN_COST, MAX_COST, MAX_CAPACITY = 1e-6, 1e7, 1e9
DEBT_S = 10.0  # of a node's share
SURPRISE = 10.0  # estimates: what a request may cost beyond its estimate, and its estimate beyond what it cost


class FairQueue(Generic[T]):
    """Requests of many tenants, and whose turn it is."""

    def __init__(self, *, capacity: float = 1.0) -> None:
        self.capacity = capacity
        self._tree: Tree[T] = Tree()
        self._parking: Parking[T] = Parking()
        self._aside: list[Branch[T]] = []  # without a turn in this pass
        self._numbers = count()
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

    def __len__(self) -> int:
        """How many wait."""
        return self._waiting

    @property
    def flows(self) -> int:
        """How many flows there is a record of."""
        return len(self._tree.flows)

    # -- requests -----------------------------------------------------------------------------------------------

    def offer(self, item: T, path: FlowPath, cost: float) -> Ticket[T]:
        """A request waits, behind those of its flow. ``cost`` is an estimate; raises ValueError if it is no such."""
        if not MIN_COST <= cost <= MAX_COST:
            raise ValueError(f"cost {cost!r}: must be from {MIN_COST:g} to {MAX_COST:g}")
        flow = self._tree.flow(path)
        ticket = Ticket(item, flow, cost, next(self._numbers))
        flow.push(ticket)
        self._waiting += 1
        if flow.size == 1 and not flow.is_parked:
            flow.make_ready()
        return ticket

    def next(self, now: float) -> Ticket[T] | None:
        """Grant the request whose turn it is; None if nothing may go."""
        self._wake(now)
        flow = self._choose(now)
        return None if flow is None else self._grant(flow, now)

    def take(self, now: float, limit: int, *, window: float = inf) -> list[Ticket[T]]:
        """Grant up to ``limit`` requests, in their order; fewer only if nothing more may go.

        ``window``: first those whose tenant's tag is at most so far beyond its lane's virtual time (as a cost over a
        weight of 1); if room is left, then anyone.
        """
        self._wake(now)
        taken: list[Ticket[T]] = []
        if window < inf:
            self._look_within(window)
            self._grant_up_to(limit, now, taken)
            self._look_everywhere()
        self._grant_up_to(limit, now, taken)
        return taken

    def started(self, ticket: Ticket[T]) -> bool:
        """A worker runs it: from here on it cannot be refunded. False if it was not granted, or is over."""
        if ticket.state is not State.GRANTED:
            return False
        ticket.state = State.STARTED
        return True

    def charge(self, ticket: Ticket[T], cost: float) -> None:
        """It has started, and has cost so much by now: what is more than was charged is paid at once."""
        if ticket.state is State.STARTED and cost > ticket.charged:
            self._settle(ticket, min(cost, MAX_COST))

    def finished(self, ticket: Ticket[T], cost: float | None = None) -> bool:
        """It is over, and has cost so much; None: nobody knows (its lease ended), what was charged stays.

        False if it was over before. Raises ValueError for a cost that is negative or no number.
        """
        if cost is not None and not cost >= 0:
            raise ValueError(f"cost {cost!r}: must be at least 0")
        if ticket.state is not State.GRANTED and ticket.state is not State.STARTED:
            return False
        ticket.state = State.OVER
        if cost is not None:
            self._settle(ticket, min(max(cost, ticket.cost / SURPRISE), MAX_COST))
        self._end(ticket)
        for gate in ticket.gates:
            if gate.leave(ticket):
                self.gate_changed(gate)
        return True

    def refund(self, ticket: Ticket[T]) -> bool:
        """It was not taken: what it was charged is given back, and it waits again, before all younger ones.

        False if it does not: it was not granted, has started, or its tenant was forgotten.
        """
        if ticket.state is not State.GRANTED:
            return False
        self._settle(ticket, 0.0)
        flow, gates, ticket.gates = ticket.flow, ticket.gates, ()
        if flow.is_gone:
            ticket.state = State.OVER
        else:
            ticket.state = State.WAITING
            flow.push_back(ticket)
            self._waiting += 1
            if not flow.is_parked:
                flow.make_ready()
        self._end(ticket)
        for gate in gates:
            gate.undo(ticket)
            self.gate_changed(gate)
        return not flow.is_gone

    def remove_if(self, predicate: Callable[[T], bool]) -> list[T]:
        """Take out the waiting items for which ``predicate`` is true, the oldest of a flow first; walks all.

        If it raises, nothing has changed.
        """
        plan: list[tuple[Flow[T], list[Ticket[T]], list[Ticket[T]]]] = []
        for flow in self._tree.flows.values():
            kept: list[Ticket[T]] = []
            gone: list[Ticket[T]] = []
            for ticket in flow:
                (gone if predicate(ticket.item) else kept).append(ticket)
            if gone:
                plan.append((flow, kept, gone))
        removed: list[T] = []
        for flow, kept, gone in plan:
            removed += self._withdraw(gone)
            flow.refill(kept)
            if not kept:
                flow.make_unready()
                self._tree.forget_if_idle(flow)
        return removed

    # -- tenants ------------------------------------------------------------------------------------------------

    def set_weight(self, path: Path, weight: float) -> None:
        """Of a lane, a tenant or a flow; 1 if never set. Raises ValueError for one out of bounds, or no number."""
        units = weight_units(weight)
        node = self._tree.reach(path)
        node.is_kept = True
        node.weigh(units)

    def set_gates(self, path: Path, gates: Iterable[Gate]) -> None:
        """Ask these, in this order, before anything of this lane, tenant or flow goes."""
        node = self._tree.reach(path)
        node.is_kept = True
        node.gates = tuple(gates)
        if node.held_by is not None:
            self._parking.unpark(node)

    def gate_changed(self, gate: Gate) -> None:
        """It may be open now (somebody left, its limit was changed): whoever it has parked may ask again."""
        for node in self._parking.held_by(gate):
            self._unpark(node)

    def park(self, path: Path, until: float, reason: str) -> None:
        """Nothing of this lane, tenant or flow goes before ``until`` (``inf``: before ``unpark``)."""
        if isnan(until):
            raise ValueError("until nan: must be a time, or inf")
        self._parking.park(self._tree.reach(path), until, reason)

    def unpark(self, path: Path) -> None:
        """What parked it is over; its gates are asked as ever."""
        node = self._tree.find(path)
        if node is not None and node.is_parked:
            self._unpark(node)

    def forget(self, path: Path) -> list[T]:
        """This lane, tenant or flow is no more: returns the items that waited in it. Its grants can still be ended."""
        top = self._tree.find(path)
        if top is None or top.parent is top:
            return []
        items: list[T] = []
        for node in below(top):
            if node.is_parked:
                self._parking.strike_off(node)
            if isinstance(node, Flow):
                items += self._withdraw(list(node))
                node.refill(())
        self._tree.remove(top)
        self._tree.forget_if_idle(top.parent)
        return items

    def next_wake(self) -> float:
        """When the next of the parked may ask again; ``inf``: nobody by time alone."""
        return self._parking.first_at()

    def why(self, path: Path) -> tuple[str, float]:
        """Why what waits there waits, and until when at least: of the outermost that is parked; else for its turn."""
        for depth in range(1, len(path) + 1):
            node = self._tree.find(path[:depth])
            if node is not None and node.is_parked:
                return node.reason, self._parking.until(node)
        return TURN, -inf

    def tag(self, path: Path) -> int:
        """The virtual time at which its next service starts."""
        node = self._tree.find(path)
        return 0 if node is None else node.tag

    def virtual_time(self, path: Path = ()) -> int:
        """Of the children of the root, of a lane, or of a tenant."""
        node = self._tree.find(path)
        return node.virtual_time if isinstance(node, Branch) else 0

    # -- choosing -----------------------------------------------------------------------------------------------

    def _grant_up_to(self, limit: int, now: float, taken: list[Ticket[T]]) -> None:
        while len(taken) < limit and (flow := self._choose(now)) is not None:
            taken.append(self._grant(flow, now))

    def _choose(self, now: float) -> Flow[T] | None:
        """The flow whose turn it is, on top at each level; parks whoever a gate refuses on the way."""
        root = branch = self._tree.root
        while branch.size or branch is not root:
            if not branch.size:
                branch = branch.parent
                continue
            entry = branch.heap[0]  # there is one: what is ready has a seat
            tag, _, child = entry
            if child.seat is not entry:
                heappop(branch.heap)
                branch.left_behind -= 1
            elif child.tag > tag:  # it was settled since
                child.seat = entry = (child.tag, next(orders), child)
                heapreplace(branch.heap, entry)
            elif not child.is_ready:
                branch.pass_by()
                self._tree.forget_if_idle(child)
            elif tag > branch.horizon:
                branch.make_unready()
                self._aside.append(branch)
                branch = branch.parent
            elif not (child.gates and self._is_refused(child, now)):
                if isinstance(child, Flow):
                    return child
                assert isinstance(child, Branch)
                branch = child
        return None

    def _is_refused(self, node: Node[T], now: float) -> bool:
        """Whether a gate of this node is closed; then it is parked."""
        for gate in node.gates:
            opens_at = gate.opens_at(now)
            if opens_at > now:
                self._parking.park(node, opens_at, gate.reason, gate)
                return True
        return False

    def _wake(self, now: float) -> None:
        for node in self._parking.due(now):
            self._unpark(node)

    def _unpark(self, node: Node[T]) -> None:
        self._parking.unpark(node)
        self._tree.forget_if_idle(node)

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
        ticket.state = State.GRANTED
        ticket.charged = cost = ticket.cost
        tenant = flow.parent
        lane = tenant.parent
        ticket.starts = (flow.serve(cost), tenant.serve(cost), lane.serve(cost))
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
        node: Node[T] = ticket.flow
        while (parent := node.parent) is not node:
            bound = max(self._debt / node.weight_of_all, SURPRISE * ticket.cost * node.scale)
            node.settle(before, cost, bound=bound)
            node = parent

    def _end(self, ticket: Ticket[T]) -> None:
        """It is under way no more."""
        node: Node[T] = ticket.flow
        for start in ticket.starts:
            node.served(start, ticket.charged)
            self._leave(node)
            node = node.parent
        self._leave(node)

    def _leave(self, node: Node[T]) -> None:
        node.running -= 1
        if not (node.running or node.size):
            if isinstance(node, Branch):
                self._tree.rest(node)
            self._tree.forget_if_idle(node)

    def _withdraw(self, tickets: Iterable[Ticket[T]]) -> list[T]:
        items: list[T] = []
        for ticket in tickets:
            ticket.state = State.OVER
            items.append(ticket.item)
        self._waiting -= len(items)
        return items
