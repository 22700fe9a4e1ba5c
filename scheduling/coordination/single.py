"""Stop 1: the lone process owns every shard.

A second one, started by mistake, takes all of them over; the first finds its epochs stale at its next write, and ends.
"""

from __future__ import annotations

from dataclasses import replace

from scheduling.coordination.port import Assignment
from scheduling.coordination.postgres import PostgresCoordinator


class SingleNode(PostgresCoordinator):
    """Registers itself as any node does, and asks nobody."""

    def renew(self) -> Assignment:
        return replace(super().renew(), mine=frozenset(range(self._shards)), leaving=frozenset())
