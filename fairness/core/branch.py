"""A branch of a fair queue's tree: the root, a lane or a tenant, whose children take turns by their tags.

Invariants: ``first`` is the child whose entry is the least of those that are a seat; the entries of all others are in
``others``. An entry is never beyond its child's tag. `fairness.core.node` says who has a seat.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import TypeVar

from fairness.core.books import Books
from fairness.core.node import Node
from fairness.core.seats import FAR, Entry, Seats, orders

T = TypeVar("T")

SLACK = 64  # entries left behind that are not worth clearing


class Branch(Node[T]):
    """``size`` is how many of its children are ready, ``ready_weight`` their weight in all."""

    __slots__ = ("books", "children", "first", "horizon", "others", "ready_weight", "virtual_time")

    def __init__(self, name: Hashable, parent: Branch[T] | None) -> None:
        super().__init__(name, self if parent is None else parent)
        self.children: dict[Hashable, Node[T]] = {}
        self.first: Node[T] | None = None  # of those with a seat
        self.others: Seats[T] | None = None  # entries of whoever else there is, or was
        self.ready_weight = 0
        self.virtual_time = 0
        self.books: Books | None = None  # of a lane that nodes share
        self.horizon = FAR  # tags beyond it have no turn in this pass

    @property
    def is_forgettable(self) -> bool:
        return not self.children and super().is_forgettable

    def give_seat(self, child: Node[T]) -> None:
        """Give ``child`` an entry at its tag, in place of the one that it may have: which is later."""
        first, before = self.first, child.seat
        entry = child.new_entry(next(orders))
        if before and child is not first:
            self._leave_behind()
        if first is None or first is child:
            self.first = child
            return
        if self.others is None:
            self.others = Seats()
        if child.tag < first.seat_tag:  # where they are equal, who was seated before stays before
            self.first, entry = child, (first.seat_tag, first.seat, first)
        self.others.add(entry)

    def seat_first_anew(self) -> None:
        """The first child's tag has grown: whoever is least now is first."""
        child, others = self.first, self.others
        assert child is not None
        assert others is not None
        self.first = others.exchange(child.new_entry(next(orders)))[2]

    def take_seat(self, child: Node[T]) -> None:
        """Nothing happens if ``child`` has none."""
        if child is self.first:
            child.seat = 0
            entry = None if self.others is None else self.others.pop()
            self.first = None if entry is None else entry[2]
        elif child.seat:
            child.seat = 0
            self._leave_behind()

    def pass_by(self) -> Node[T]:
        """Virtual time gets to the tag of the first child, which is idle, and gives up its seat; returns it."""
        child = self.first
        assert child is not None
        self.take_seat(child)
        self.virtual_time = max(self.virtual_time, child.tag)
        return child

    def clear_seats(self) -> list[Node[T]]:
        """Virtual time passes every tag; returns whose seats there were. None of them may be ready."""
        idle = list(self.seated())
        self.first = self.others = None
        for child in idle:
            child.seat = 0
            self.virtual_time = max(self.virtual_time, child.tag)
        return idle

    def seated(self) -> Iterator[Node[T]]:
        """Who has a seat: the first, and then the others in no order."""
        if self.first is not None:
            yield self.first
        for entry in self.others or ():
            if (child := entry[2]).seat == entry[1]:
                yield child

    def ready_by_tag(self) -> Iterator[Node[T]]:
        """The ready children, least tag first; looks at little more than it yields."""
        grown: list[Entry[T]] = []
        for entry in self._in_order():
            while grown and grown[0] < entry:
                yield heappop(grown)[2]
            tag, order, child = entry
            if child.seat == order and child.is_ready:
                if child.tag > tag:
                    heappush(grown, (child.tag, order, child))
                else:
                    yield child
        yield from (child for _, _, child in sorted(grown))

    def _in_order(self) -> Iterator[Entry[T]]:
        first = self.first
        if first is not None and first.seat:
            yield first.seat_tag, first.seat, first
        if self.others is not None:
            yield from self.others.in_order()

    def _leave_behind(self) -> None:
        """What was the seat of one of the others is nobody's any more."""
        others = self.others
        assert others is not None
        others.left_behind += 1
        if others.left_behind > len(self.children) + SLACK:
            others.clear_left_behind()
