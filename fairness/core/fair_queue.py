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

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from math import inf, isnan
from typing import TypeVar

from fairness.core.across_nodes import AcrossNodes
from fairness.core.branch import Branch
from fairness.core.gate import Gate
from fairness.core.node import GRANTED, OVER, STARTED, TURN, WAITING, Flow, Ticket, weight_units
from fairness.core.tree import FlowPath, Path, below
from fairness.core.turns import MAX_COST, SURPRISE

T = TypeVar("T")

MIN_COST = 1e-6


class FairQueue(AcrossNodes[T]):
    """Requests of many tenants, and whose turn it is."""

    def __init__(self, *, capacity: float = 1.0) -> None:
        super().__init__(capacity=capacity)
        self._numbers = count()

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

    def started(self, ticket: Ticket[T]) -> bool:
        """A worker runs it: from here on it cannot be refunded. False if it was not granted, or is over."""
        if ticket.state is not GRANTED:
            return False
        ticket.state = STARTED
        return True

    def charge(self, ticket: Ticket[T], cost: float) -> None:
        """It has started, and has cost so much by now: what is more than was charged is paid at once."""
        if ticket.state is STARTED and cost > ticket.charged:
            self._settle(ticket, min(cost, MAX_COST))

    def finished(self, ticket: Ticket[T], cost: float | None = None) -> bool:
        """It is over, and has cost so much; None: nobody knows (its lease ended), what was charged stays.

        False if it was over before. Raises ValueError for a cost that is negative or no number.
        """
        if cost is not None and not cost >= 0:
            raise ValueError(f"cost {cost!r}: must be at least 0")
        if ticket.state is not GRANTED and ticket.state is not STARTED:
            return False
        ticket.state = OVER
        if cost is None:
            cost = ticket.charged
        else:
            least = ticket.cost / SURPRISE
            cost = least if cost < least else MAX_COST if cost > MAX_COST else cost
        self._end(ticket, cost)
        for gate in ticket.gates:
            if gate.leave(ticket) and self._parking.holds(gate):
                self.gate_changed(gate)
        return True

    def refund(self, ticket: Ticket[T]) -> bool:
        """It was not taken: what it was charged is given back, and it waits again, before all younger ones.

        False if it does not: it was not granted, has started, or its tenant was forgotten.
        """
        if ticket.state is not GRANTED:
            return False
        flow = ticket.flow
        self._settle(ticket, 0.0)
        ticket.state = OVER if flow.is_gone else WAITING
        if not flow.is_gone:
            flow.push_back(ticket)
            self._waiting += 1
            if not flow.is_parked:
                flow.make_ready()
        self._undo(ticket)
        return not flow.is_gone

    def withdraw(self, ticket: Ticket[T]) -> bool:
        """It is over, and costs nothing; walks its flow if it waits. False if it has started, or was over before."""
        if ticket.state is GRANTED:
            self._settle(ticket, 0.0)
            ticket.state = OVER
            self._undo(ticket)
            return True
        if ticket.state is not WAITING:
            return False
        self._withdraw([ticket])
        self._hold_only(ticket.flow, [each for each in ticket.flow if each is not ticket])
        return True

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
            self._hold_only(flow, kept)
        return removed

    def waiting(self, path: Path = ()) -> int:
        """How many wait there; walks its flows."""
        return sum(flow.size for flow in self._flows_of(path))

    def oldest(self, path: Path = ()) -> Ticket[T] | None:
        """The one that was offered first, of those that wait there; walks its flows."""
        firsts = [ticket for flow in self._flows_of(path) if (ticket := flow.oldest) is not None]
        return min(firsts, key=lambda ticket: ticket.number, default=None)

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

    def is_parked(self, path: Path) -> bool:
        """Whether this very lane, tenant or flow is."""
        node = self._tree.find(path)
        return node is not None and node.is_parked

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
        """Why what waits there waits, and until when at least: of the innermost that is parked, which is its own reason
        and not that of all; else for its turn.
        """
        for depth in range(len(path), 0, -1):
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

    def _undo(self, ticket: Ticket[T]) -> None:
        """It is under way no more, as if it had never been."""
        gates, ticket.gates = ticket.gates, ()
        self._end(ticket, ticket.charged)
        for gate in gates:
            gate.undo(ticket)
            self.gate_changed(gate)

    def _flows_of(self, path: Path) -> Iterator[Flow[T]]:
        top = self._tree.find(path)
        return iter(()) if top is None else (node for node in below(top) if isinstance(node, Flow))

    def _hold_only(self, flow: Flow[T], tickets: Sequence[Ticket[T]]) -> None:
        flow.refill(tickets)
        if not tickets:
            flow.make_unready()
            self._tree.forget_if_idle(flow)

    def _withdraw(self, tickets: Iterable[Ticket[T]]) -> list[T]:
        items: list[T] = []
        for ticket in tickets:
            ticket.state = OVER
            items.append(ticket.item)
        self._waiting -= len(items)
        return items
