"""Exchanges over no service: of nodes in one process, by a board of theirs; and of nodes that cannot ask each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from fairness.core.board import Board
from fairness.core.exchange import Frames, Settled, Told, part_alone


class LocalExchange:
    """An ``Exchange`` of the nodes that have this board in common."""

    is_degraded = False

    def __init__(self, board: Board, *, node: str, clock: Callable[[], float]) -> None:
        self._board = board
        self._node = node
        self._clock = clock
        self._frames = Frames()

    def exchange(self, told: Sequence[Told]) -> list[Settled]:
        now = self._clock()
        settled = []
        for one in told:
            answer, has_joined = self._board.settle(self._node, one, now)
            settled.append(self._frames.own(one, answer, has_joined=has_joined))
        return settled

    def leave(self) -> None:
        self._board.leave(self._node)

    def close(self) -> None:
        """There is nothing to close."""


class DividedExchange:
    """An ``Exchange`` of a node that keeps to its part: without Redis. ``nodes`` are all that are alive."""

    is_degraded = False  # there is nobody to miss

    def __init__(self, *, node: str, nodes: Callable[[], Collection[str]]) -> None:
        self._node = node
        self._nodes = nodes

    def exchange(self, told: Sequence[Told]) -> list[Settled]:
        nodes = self._nodes()
        return [part_alone(one, node=self._node, nodes=nodes) for one in told]

    def leave(self) -> None:
        """Others count it by its lease as a node."""

    def close(self) -> None:
        """There is nothing to close."""
