"""The fleet as it is at this moment: for ``manage.py cluster``, and for the admin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import DEFAULT_DB_ALIAS

from scheduling.services.session import in_transaction
from scheduling.store.cluster import NodeState, ShardState, read_nodes, read_shards


@dataclass(frozen=True, slots=True)
class Cluster:
    nodes: Sequence[NodeState]
    shards: Sequence[ShardState]

    @property
    def alive(self) -> int:
        """Nodes."""
        return sum(node.alive for node in self.nodes)

    @property
    def owned(self) -> int:
        """Shards."""
        return sum(shard.owned for shard in self.shards)

    @property
    def lag_s(self) -> float:
        """The worst of all shards."""
        return max((shard.lag_s for shard in self.shards), default=0.0)

    @property
    def unconfirmed(self) -> int:
        """Fires that are due, claimed, and not known to be confirmed."""
        return sum(shard.unconfirmed for shard in self.shards)

    def __str__(self) -> str:
        return (
            f"nodes alive: {self.alive} of {len(self.nodes)}; shards owned: {self.owned} of {len(self.shards)};"
            f" lag: {self.lag_s:.1f} s; unconfirmed: {self.unconfirmed}"
        )


def cluster(*, using: str = DEFAULT_DB_ALIAS) -> Cluster:
    """Looks everything up by index, whichever store has the jobs' next occurrences in its care."""
    with in_transaction(using) as connection:
        return Cluster(read_nodes(connection), read_shards(connection))
