"""A node's row, and its name in the rows of its shards; every coordinator writes them.

People read them (the admin, ``manage.py cluster``), and a shard's row can name only a node that has one. For
PostgresCoordinator the row is the lease itself.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from scheduling.store.connection import Connect, Link
from scheduling.store.statements import read_statements

CHANNEL = "fairbeat_nodes"  # where a node tells what it changes, with its name
_SQL = read_statements(Path(__file__).with_suffix(".sql"))


class NodeRow:
    """One thread uses it. Raises StoreUnavailable."""

    def __init__(self, connect: Connect, *, node: str, region: str, weight: float, lease_s: float) -> None:
        self.link = Link(connect)
        self._me: dict[str, Any] = {
            "node": node,
            "region": region,
            "weight": weight,
            "lease_s": lease_s,
            "channel": CHANNEL,
        }

    def join(self) -> None:
        with self.link() as connection:
            connection.execute(_SQL["join"], self._me)

    def renew(self) -> None:
        """Extend the lease in the row, which is made again where somebody removed it."""
        with self.link() as connection:
            if connection.execute(_SQL["renew"], self._me).rowcount == 0:
                connection.execute(_SQL["join"], self._me)

    def release(self, shards: Collection[int]) -> None:
        """Take its name out of these shards' rows, where it is there."""
        with self.link() as connection:
            connection.execute(_SQL["release"], self._me | {"shards": sorted(shards)})

    def leave(self) -> None:
        """End the lease, take its name out of all shards' rows, and close the connection."""
        with self.link() as connection:
            connection.execute(_SQL["leave"], self._me)
        self.link.close()
