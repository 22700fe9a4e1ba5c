"""The coordinator in memory, for tests and simulations: the nodes of a fleet share one ``Fleet``.

It answers as the Postgres one does: leases are written and judged by one clock, and a shard whose owner is alive stays
with it until it is released.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping
from math import inf
from threading import Lock

from scheduling.coordination.port import Assignment
from scheduling.core.clock import Clock
from scheduling.core.sharding import assign


class Fleet:
    """``owners`` is written by the store's take-overs, as the shard's row is in Postgres. Without ``groups`` each shard
    is assigned by itself.
    """

    def __init__(
        self, clock: Clock, *, shards: int, owners: MutableMapping[int, str], groups: int | None = None
    ) -> None:
        self.clock, self.shards, self.owners, self.groups = clock, shards, owners, groups
        self.leases: dict[str, float] = {}  # by node: monotonic seconds
        self.weights: dict[str, float] = {}
        self.watchers: dict[str, Callable[[], None]] = {}
        self.lock = Lock()

    def members(self) -> dict[str, float]:
        """The weights of those that live."""
        now = self.clock.monotonic()
        return {node: self.weights[node] for node, lease_until in self.leases.items() if lease_until > now}


class MemoryCoordinator:
    """One node's view of the fleet. What it changes it tells the others from within the call."""

    def __init__(self, fleet: Fleet, *, node: str, lease_s: float, weight: float = 1.0) -> None:
        self._fleet, self._node, self._lease_s, self._weight = fleet, node, lease_s, weight

    def join(self) -> None:
        with self._fleet.lock:
            self._extend()
        self._tell()

    def renew(self) -> Assignment:
        fleet = self._fleet
        with fleet.lock:
            lease_until = self._extend()
            members = fleet.members()
            wanted = assign(fleet.shards, members, groups=fleet.groups)[self._node]
            alive = {shard: owner for shard, owner in fleet.owners.items() if owner in members}
            held = {shard for shard, owner in alive.items() if owner == self._node}
            look_at = min((fleet.leases[member] for member in members if member != self._node), default=inf)
            return Assignment(lease_until, frozenset(wanted - (alive.keys() - held)), frozenset(held - wanted), look_at)

    def watch(self, on_change: Callable[[], None]) -> None:
        self._fleet.watchers[self._node] = on_change

    def release(self, shards: Collection[int]) -> None:
        with self._fleet.lock:
            self._free(shards)
        self._tell()

    def leave(self) -> None:
        with self._fleet.lock:
            self._free(list(self._fleet.owners))
            self._fleet.leases[self._node] = self._fleet.clock.monotonic()
            self._fleet.watchers.pop(self._node, None)
        self._tell()

    def _tell(self) -> None:
        for node, on_change in list(self._fleet.watchers.items()):
            if node != self._node:
                on_change()

    def _extend(self) -> float:
        lease_until = self._fleet.clock.monotonic() + self._lease_s
        self._fleet.leases[self._node] = lease_until
        self._fleet.weights[self._node] = self._weight
        return lease_until

    def _free(self, shards: Collection[int]) -> None:
        for shard in shards:
            if self._fleet.owners.get(shard) == self._node:
                del self._fleet.owners[shard]
