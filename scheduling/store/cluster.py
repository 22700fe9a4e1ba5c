"""Reads the fleet as it is: nodes with their leases, shards with their owners and their lag."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scheduling.core.latency import LatencyHistogram
from scheduling.store.connection import Connection
from scheduling.store.statements import statements


@dataclass(frozen=True, slots=True)
class NodeState:
    """``lease_left_s`` is negative once the lease is out. Latency is of its fires since its start, None before any."""

    id: str
    region: str
    alive: bool
    lease_left_s: float
    weight: float
    shards: int
    fires: int
    latency_ms: dict[str, float | None] = field(hash=False)
    started_at: datetime


@dataclass(frozen=True, slots=True)
class ShardState:
    """``owned``: its owner is alive. ``lag_s``: real seconds for which its oldest occurrence has been due without being
    confirmed, 0 if there is none; ``unconfirmed``: fires that are due, claimed, and not known to be confirmed.
    """

    id: int
    owner: str | None
    owned: bool
    epoch: int
    watermark: tuple[int, int]  # (epoch, number)
    lag_s: float
    unconfirmed: int


def read_nodes(connection: Connection) -> list[NodeState]:
    """The living ones first."""
    return [_node(*row) for row in connection.execute(statements("cluster")["nodes"])]


def read_shards(connection: Connection) -> list[ShardState]:
    """Inside a transaction, whose plans are then ones by index, as those of the nodes are: a part of the ring that was
    empty when statistics were taken looks as if it were read whole at no cost. Nor are they compiled, which takes
    seconds for so many tables.
    """
    connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL jit = off")
    rows: Sequence[Any] = connection.execute(statements("cluster")["shards"]).fetchall()
    return [
        ShardState(shard, owner, owned, epoch, (seq_epoch, seq), round(lag_s or 0.0, 3), unconfirmed)
        for shard, epoch, owner, owned, seq_epoch, seq, lag_s, unconfirmed in rows
    ]


def read_living(connection: Connection) -> tuple[int, list[int]]:
    """How many nodes live, and the shards that none of them owns."""
    living, ownerless = connection.execute(statements("cluster")["living"]).fetchone() or (0, [])
    return living, ownerless


def _node(
    node: str, region: str, weight: float, started_at: datetime, lease_s: float, fires: int, latency: str, owned: int
) -> NodeState:
    values = json.loads(latency)
    histogram = LatencyHistogram.from_dict(values) if values else LatencyHistogram()
    found = {f"p{q}": histogram.quantile(q / 100) for q in (50, 99)}
    latency_ms = {name: None if value is None else round(value * 1000, 1) for name, value in found.items()}
    return NodeState(node, region, lease_s > 0, round(lease_s, 1), weight, owned, fires, latency_ms, started_at)
