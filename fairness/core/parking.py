"""Nodes that must wait: until when, why, and for which gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from fairness.core.agenda import Agenda
from fairness.core.gate import Gate
from fairness.core.node import TURN, Node

T = TypeVar("T")


class Parking(Generic[T]):
    """A parked node is not ready. Nothing is asked of it, and it costs nothing, until its time."""

    def __init__(self) -> None:
        self._until: Agenda[Node[T]] = Agenda()
        self._held: dict[Gate, dict[Node[T], None]] = {}  # whom it has parked, in order

    def park(self, node: Node[T], until: float, reason: str, gate: Gate | None = None) -> None:
        """In place of what it may be parked for; ``gate``: who does it."""
        node.make_unready()
        self._let_go(node)
        node.is_parked = True
        node.reason = reason
        self._until.set(node, until)
        if gate is not None:
            node.held_by = gate
            self._held.setdefault(gate, {})[node] = None

    def unpark(self, node: Node[T]) -> None:
        """It may ask its gates again."""
        self.strike_off(node)
        if node.size:
            node.make_ready()

    def strike_off(self, node: Node[T]) -> None:
        """It is not parked any more, and not ready for that."""
        self._let_go(node)
        self._until.discard(node)
        node.is_parked = False
        node.reason = TURN

    def holds(self, gate: Gate) -> bool:
        """Whether it has parked anybody: asked of each gate that somebody leaves."""
        return gate in self._held

    def held_by(self, gate: Gate) -> Sequence[Node[T]]:
        """Whom it has parked."""
        held = self._held.get(gate)
        return tuple(held) if held else ()

    def until(self, node: Node[T]) -> float:
        return self._until.time_of(node)

    def first_at(self) -> float:
        """When the first of them may ask again; ``inf``: nobody by time alone."""
        return self._until.first_at()

    def due(self, now: float) -> list[Node[T]]:
        """Those whose time has come, which are to be unparked."""
        return self._until.pop_due(now)

    def _let_go(self, node: Node[T]) -> None:
        gate, node.held_by = node.held_by, None
        if gate is not None:
            held = self._held[gate]
            del held[node]
            if not held:
                del self._held[gate]
