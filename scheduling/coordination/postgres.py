"""Leases in Postgres: a row for each node, written and judged by the database's clock.

A node that lives renews its row; the others see it, and all compute the same assignment by rendezvous hashing. A
shard whose owner is alive stays with it until it is released, so a hand-over has no gap in which two nodes act, and a
dead node's shards are free when its lease is out.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from scheduling.coordination.port import Assignment
from scheduling.core.sharding import assign
from scheduling.store.connection import Connect, Link
from scheduling.store.statements import read_statements

_SQL = read_statements(Path(__file__).with_suffix(".sql"))


class PostgresCoordinator:
    """One thread uses it. ``weight`` is the node's capacity relative to the others."""

    def __init__(
        self, connect: Connect, *, node: str, region: str, shards: int, lease_s: float, weight: float = 1.0
    ) -> None:
        self._link = Link(connect)
        self._shards, self._lease_s = shards, lease_s
        self._me: dict[str, Any] = {"node": node, "region": region, "weight": weight, "lease_s": lease_s}

    def join(self) -> None:
        with self._link() as connection:
            connection.execute(_SQL["join"], self._me)

    def renew(self) -> Assignment:
        before = time.monotonic()
        with self._link() as connection:
            if connection.execute(_SQL["renew"], self._me).rowcount == 0:
                connection.execute(_SQL["join"], self._me)
            members = dict(connection.execute(_SQL["members"]).fetchall())
            owners = dict(connection.execute(_SQL["living_owners"]).fetchall())
        node = self._me["node"]
        wanted = assign(self._shards, members).get(node, frozenset())
        held = {shard for shard, owner in owners.items() if owner == node}
        elsewhere = {shard for shard, owner in owners.items() if owner != node}
        return Assignment(before + self._lease_s, frozenset(wanted - elsewhere), frozenset(held - wanted))

    def release(self, shards: Collection[int]) -> None:
        with self._link() as connection:
            connection.execute(_SQL["release"], self._me | {"shards": sorted(shards)})

    def leave(self) -> None:
        with self._link() as connection:
            connection.execute(_SQL["leave"], self._me)
        self._link.close()
