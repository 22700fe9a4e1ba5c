"""The nodes of a fair queue's tree: branches order their children by tag, flows hold the tickets that wait.

::

    root ── lane ── tenant ── key (a flow) ── ticket, ticket, …          oldest first

A node's *tag* is the virtual time at which its next service starts: what it was charged, over its weight. Its parent
keeps the order of tags, and the virtual time of its children. Tags and virtual times are whole numbers, so charging and
giving back cancel exactly, and nothing drifts however long a process lives.

Invariants:

- A node is *ready* if something in it may go: it holds a ticket (a branch: a ready child), and it is not parked. A
  ready node has a seat with its parent; so has one that is idle and whose tag is still ahead.
- A seat is an entry of the tag and the order in which seats were given. The child with the least is its parent's
  ``first``; entries of the others are in `Seats`, so that a lone child costs no order at all. A tag that has grown
  since is put right when its node is first, before others; for one that has fallen a new entry is made, and the old one
  is left behind. What is left behind is cleared when it is about half.
- Virtual time never goes back. It is where the last service started, or further on where more than that has been worked
  off since: else whoever comes anew would for ever go before who has had a turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from enum import Enum
from heapq import heappop, heappush
from types import FunctionType
from typing import TYPE_CHECKING, Generic, TypeVar

from fairness.core.gate import Gate

if TYPE_CHECKING:
    from fairness.core.branch import Branch
    from fairness.core.seats import Entry

T = TypeVar("T")

UNIT = 1 << 40  # of virtual time: a cost of 1 over a weight of 1
MIN_WEIGHT, MAX_WEIGHT = 0.001, 10_000.0
WEIGHT_UNIT = 1_000_000_000  # weights are summed as whole numbers: a sum of floats would drift
WORK = float(UNIT * WEIGHT_UNIT)  # of virtual time: a cost of 1 over one unit of weight
EVEN = float(UNIT)  # one for all nodes without a weight of their own, since whatever each has is read from afar

TURN = "turn"  # the reason of whatever no gate holds


def weight_units(weight: float) -> int:
    """Raises ValueError for a weight out of bounds, or no number."""
    if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
        raise ValueError(f"weight {weight!r}: must be from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}")
    return round(weight * WEIGHT_UNIT)


class State(Enum):
    """Of a ticket.

    ::

        WAITING ──next──> GRANTED ──started──> STARTED
          │  ^── refund ──┘  └────── finished ────┴──> OVER
          └─ withdrawn ──────────────────────────────> OVER
    """

    WAITING = "waiting"
    GRANTED = "granted"
    STARTED = "started"
    OVER = "over"


WAITING, GRANTED, STARTED, OVER = State  # to look one of them up in its class takes as long as half a decision


class Ticket(Generic[T]):
    """One request, from its offer to its end. ``item`` is the caller's own, and never looked at."""

    __slots__ = (
        "charged",
        "cost",
        "flow",
        "flow_start",
        "gates",
        "item",
        "lane_start",
        "next",
        "number",
        "state",
        "tenant_start",
    )

    def __init__(self, item: T, flow: Flow[T], cost: float, number: int) -> None:
        self.item = item
        self.flow = flow
        self.cost = cost  # as estimated
        self.charged = 0.0  # as charged so far
        self.flow_start = self.tenant_start = self.lane_start = 0  # their tags when it was granted
        self.number = number  # in the order of offers
        self.state = WAITING
        self.next: Ticket[T] | None = None  # behind it in its flow
        self.gates: tuple[Gate, ...] = ()  # that it has entered

    @property
    def path(self) -> tuple[Hashable, Hashable, Hashable]:
        """Its lane, tenant and key."""
        flow = self.flow
        return flow.parent.parent.name, flow.parent.name, flow.name


class Node(Generic[T]):
    """What branches and flows have in common."""

    __slots__ = (
        "gates",
        "held_by",
        "is_gone",
        "is_kept",
        "is_parked",
        "is_ready",
        "name",
        "parent",
        "reason",
        "running",
        "scale",
        "seat",
        "seat_tag",
        "size",
        "tag",
        "weight",
    )

    def __init__(self, name: Hashable, parent: Branch[T]) -> None:
        self.name = name
        self.parent = parent  # the root's is itself
        self.weight = WEIGHT_UNIT
        self.scale = EVEN  # virtual time for a cost of 1
        self.tag = 0
        self.seat = 0  # the order of its entry with its parent; 0: it has none
        self.seat_tag = 0  # the tag of that entry
        self.size = 0  # tickets that wait; of a branch: children that are ready
        self.running = 0  # grants that have not ended
        self.is_ready = False
        self.is_parked = False
        self.is_kept = False  # it was given a weight or gates: not forgotten while idle
        self.is_gone = False  # forgotten, though grants of it may not have ended
        self.gates: tuple[Gate, ...] = ()
        self.held_by: Gate | None = None  # parked by this gate
        self.reason = TURN

    @property
    def is_forgettable(self) -> bool:
        """It holds nothing, was given nothing, and virtual time has passed its tag: made anew, it would be the same."""
        if self.size or self.running or self.is_kept or self.is_parked or self.is_gone:
            return False
        return self.parent is not self and self.tag <= self.parent.virtual_time

    @property
    def path(self) -> tuple[Hashable, ...]:
        return () if self.parent is self else (*self.parent.path, self.name)

    def weigh(self, units: int) -> None:
        """Another weight: a tag that is ahead is ahead by what the same cost is at the new one."""
        parent, before = self.parent, self.weight
        self.weight = units
        self.scale = WORK / units
        if self.is_ready:
            parent.ready_weight += units - before
        if parent.books is not None and (untold := parent.books.untold.get(self.name)):
            parent.books.untold[self.name] = untold * before // units
        if (lead := self.tag - parent.virtual_time) > 0:
            self.move_to(parent.virtual_time + lead * before // units)

    def serve(self, cost: float) -> int:
        """Charge a service to this node, which is its parent's first; returns the tag at which it starts."""
        parent, start = self.parent, self.tag
        if start > parent.virtual_time:
            parent.virtual_time = start
        self.tag = start + int(cost * self.scale)
        self.running += 1
        if parent.others is not None:  # else it stays first anyhow
            parent.seat_first_anew()
        return start

    def settle(self, before: float, cost: float, surprise: float, debt: float) -> int:
        """A service charged as ``before`` is charged as ``cost``. Returns by how much the tag moves: it gets no further
        from virtual time than the cost ``surprise``, or than ``debt`` shared among all is, if that is more.
        """
        scale, tag, time = self.scale, self.tag, self.parent.virtual_time
        moved = tag + int(cost * scale) - int(before * scale)
        bound = int(surprise * scale)
        if moved > tag:
            if moved > time + bound:  # seldom, so that the rest is seldom asked
                moved = max(tag, min(moved, time + max(bound, int(debt / self.weight_of_all))))
            self.tag = moved
        elif moved < tag:
            if moved < time - bound:
                moved = min(tag, max(moved, time - max(bound, int(debt / self.weight_of_all))))
            self.move_to(moved)
        return moved - tag

    def end(self, start: int, before: float, cost: float, surprise: float, debt: float) -> int:
        """A service that began at ``start`` has ended: it is settled, and so much was worked off since then. Virtual
        time is at least where that, shared among all, has brought it. Returns by how much the tag moves.
        """
        moved = 0 if cost == before else self.settle(before, cost, surprise, debt)
        parent = self.parent
        weight_of_all = parent.ready_weight if self.is_ready else parent.ready_weight + self.weight
        reached = start + int(cost * (WORK / weight_of_all))
        if reached > parent.virtual_time:
            parent.virtual_time = reached
        self.running -= 1
        return moved

    @property
    def weight_of_all(self) -> int:
        """Of its parent's ready children and itself."""
        return self.parent.ready_weight if self.is_ready else self.parent.ready_weight + self.weight

    def move_to(self, tag: int) -> None:
        """Another tag; its entry follows at once only where it must come earlier."""
        self.tag = tag
        if self.seat and tag < self.seat_tag:
            self.parent.give_seat(self)

    def new_entry(self, order: int) -> Entry[T]:
        """At its tag, in place of the one that it may have."""
        self.seat, self.seat_tag = order, self.tag
        return self.tag, order, self

    def make_ready(self) -> None:
        """Something in it may go, from now: with its parents, as far as they were not ready."""
        node: Node[T] = self
        while not (node.is_ready or node.parent is node):
            parent = node.parent
            node.is_ready = True
            if parent.books is not None:
                parent.books.came.add(node.name)
            if node.tag < parent.virtual_time:
                node.tag = parent.virtual_time  # who was away has saved up nothing
            if not node.seat:
                parent.give_seat(node)
            parent.size += 1
            parent.ready_weight += node.weight
            if parent.is_parked:
                return
            node = parent

    def make_unready(self) -> None:
        """Nothing in it may go; it keeps its seat, so that virtual time passes its tag before it is forgotten."""
        node: Node[T] = self
        while node.is_ready:
            parent = node.parent
            node.is_ready = False
            parent.size -= 1
            parent.ready_weight -= node.weight
            if parent.size:
                return
            node = parent


class Flow(Node[T]):
    """The tickets of one key, in the order of their offers."""

    __slots__ = ("first", "last", "returned")

    def __init__(self, name: Hashable, parent: Branch[T]) -> None:
        super().__init__(name, parent)
        self.first: Ticket[T] | None = None
        self.last: Ticket[T] | None = None
        self.returned: list[tuple[int, Ticket[T]]] | None = None  # a heap of those handed back, older than all others

    def push(self, ticket: Ticket[T]) -> None:
        """Behind all others."""
        if self.last is None:
            self.first = ticket
        else:
            self.last.next = ticket
        self.last = ticket
        self.size += 1

    def push_back(self, ticket: Ticket[T]) -> None:
        """Where it was before it was popped."""
        if self.returned is None:
            self.returned = []
        heappush(self.returned, (ticket.number, ticket))
        self.size += 1

    def pop(self) -> Ticket[T]:
        """Take out the oldest; there must be one."""
        self.size -= 1
        if self.returned:
            return heappop(self.returned)[1]
        ticket = self.first
        assert ticket is not None  # by size
        self.first = ticket.next
        if self.first is None:
            self.last = None
        ticket.next = None
        return ticket

    @property
    def oldest(self) -> Ticket[T] | None:
        return self.returned[0][1] if self.returned else self.first

    def __iter__(self) -> Iterator[Ticket[T]]:
        """Oldest first."""
        yield from (ticket for _, ticket in sorted(self.returned or ()))
        ticket = self.first
        while ticket is not None:
            yield ticket
            ticket = ticket.next

    def refill(self, tickets: Iterable[Ticket[T]]) -> None:
        """Hold these instead, oldest first."""
        self.first = self.last = None
        self.returned, self.size = None, 0
        for ticket in tickets:
            ticket.next = None
            self.push(ticket)


def _give_copies_of_its_own(cls: type, names: Iterable[str]) -> None:
    """Have ``cls`` run code of its own for these methods, and not its parent's.

    The interpreter makes each place in the code that reads an attribute fast for objects of one class. Where they are
    of two by turns, as a branch and a flow are at each grant, it takes three times as long. Compiled code does not.
    """
    for name in names:
        method = getattr(cls, name)
        if isinstance(method, FunctionType):
            setattr(cls, name, FunctionType(method.__code__.replace(), method.__globals__, name))


_give_copies_of_its_own(Flow, ("serve", "settle", "end"))
