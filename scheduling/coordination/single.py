"""Stop 1: the lone process owns every shard.

A second one, started by mistake, takes all of them over; the first finds its epochs stale at its next write, and ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

from scheduling.coordination.port import Assignment
from scheduling.coordination.postgres import PostgresCoordinator


class SingleNode(PostgresCoordinator):
    """Registers itself as any node does, and asks nobody."""

    def renew(self) -> Assignment:
        return replace(super().renew(), mine=frozenset(range(self._shards)), leaving=frozenset(), look_at=inf)

    def watch(self, on_change: Callable[[], None]) -> None:
        """What others do changes nothing here."""
