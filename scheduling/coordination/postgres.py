"""Leases in Postgres: a row for each node, written and judged by the database's clock.

A node that lives renews its row; the others see it, and all compute the same assignment by rendezvous hashing. A
shard whose owner is alive stays with it until it is released, so a hand-over has no gap in which two nodes act, and a
dead node's shards are free when its lease is out. NOTIFY tells the others what a node changes; nobody tells them that a
lease has run out, so each renewal says when the next one may.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from math import inf
from pathlib import Path

from scheduling.coordination.node_row import CHANNEL, NodeRow
from scheduling.coordination.port import Assignment
from scheduling.core.sharding import assign
from scheduling.store.connection import Connect
from scheduling.store.listener import Listener
from scheduling.store.statements import read_statements

_SQL = read_statements(Path(__file__).with_suffix(".sql"))


class PostgresCoordinator:
    """One thread uses it. ``weight`` is the node's capacity relative to the others; without ``groups`` each shard is
    assigned by itself. ``shards`` and ``groups`` are the same for all nodes.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        node: str,
        region: str,
        shards: int,
        lease_s: float,
        groups: int | None = None,
        weight: float = 1.0,
    ) -> None:
        self._connect, self._node = connect, node
        self._shards, self._groups, self._lease_s = shards, groups, lease_s
        self._row = NodeRow(connect, node=node, region=region, weight=weight, lease_s=lease_s)
        self._listener: Listener | None = None

    def join(self) -> None:
        self._row.join()

    def renew(self) -> Assignment:
        before = time.monotonic()
        self._row.renew()
        with self._row.link() as connection:
            members = connection.execute(_SQL["members"]).fetchall()
            read_at = time.monotonic()
            owners = dict(connection.execute(_SQL["living_owners"]).fetchall())
        weights = {member: weight for member, weight, _ in members}
        wanted = assign(self._shards, weights, groups=self._groups).get(self._node, frozenset())
        held = {shard for shard, owner in owners.items() if owner == self._node}
        look_at = min((read_at + left_s for member, _, left_s in members if member != self._node), default=inf)
        return Assignment(
            before + self._lease_s, frozenset(wanted - (owners.keys() - held)), frozenset(held - wanted), look_at
        )

    def watch(self, on_change: Callable[[], None]) -> None:
        def heard(node: str) -> None:
            if node != self._node:
                on_change()

        self._listener = Listener(self._connect, CHANNEL, heard)
        self._listener.start()

    def release(self, shards: Collection[int]) -> None:
        self._row.release(shards)

    def leave(self) -> None:
        if self._listener is not None:
            self._listener.stop()
        self._row.leave()
