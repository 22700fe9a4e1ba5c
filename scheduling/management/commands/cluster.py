"""``manage.py cluster``: nodes and shards of the fleet, with leases, epochs and lag.

``--json`` prints one object::

    {"nodes": [{"id": "node-1", "region": "", "alive": true, "lease_left_s": 1.7, "weight": 1.0, "shards": 32,
                "fires": 8123, "latency_ms": {"p50": 2.1, "p99": 9.8}, "started_at": "2026-03-02T12:00:00+00:00"}, …],
     "shards": [{"id": 0, "owner": "node-1", "owned": true, "epoch": 3, "watermark": [3, 1207], "lag_s": 0.0,
                 "unconfirmed": 0}, …],
     "alive": 2, "owned": 64, "lag_s": 0.0, "unconfirmed": 0}

``alive``: its lease is in force; ``owned``: its owner is alive (at stop 2 no shard has an owner); ``latency_ms``: from
due to confirmed, of the node's fires since its start, null before the first; ``watermark``: fires numbered up to this
(epoch, number) are confirmed; ``lag_s``: real seconds for which the oldest occurrence has been due and is not
confirmed; ``unconfirmed``: fires that are due and claimed, and whose confirm is not recorded. The last four are of all
nodes and shards: how many are alive, how many are owned, the worst lag, the sum.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from scheduling.services.cluster import Cluster, cluster
from scheduling.store.cluster import NodeState, ShardState


class Command(BaseCommand):
    help = "Show the nodes and the shards of the fleet: who is alive, who owns what, how far each shard has got."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print an object of JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = cluster()
        except DatabaseError as problem:
            reason = str(problem).strip().partition("\n")[0]
            raise CommandError(f"the database does not answer: {reason}") from problem
        self.stdout.write(_as_json(found) if options["json"] else _as_text(found))


def _as_json(found: Cluster) -> str:
    total = {"alive": found.alive, "owned": found.owned, "lag_s": found.lag_s, "unconfirmed": found.unconfirmed}
    return json.dumps(asdict(found) | total, default=lambda moment: moment.isoformat())


def _as_text(found: Cluster) -> str:
    nodes = ["node", "region", "alive", "lease", "weight", "shards", "fires", "p50", "p99"]
    shards = ["shard", "owner", "owned", "epoch", "watermark", "lag", "unconfirmed"]
    return "\n".join(
        [
            *_table([nodes, *map(_node_cells, found.nodes)]),
            "",
            *_table([shards, *map(_shard_cells, found.shards)]),
            "",
            str(found),
        ]
    )


def _node_cells(node: NodeState) -> list[str]:
    p50, p99 = ("-" if value is None else f"{value:g} ms" for value in node.latency_ms.values())
    alive, lease = ("yes", f"{node.lease_left_s:.1f} s") if node.alive else ("no", "-")
    return [
        node.id,
        node.region or "-",
        alive,
        lease,
        f"{node.weight:g}",
        str(node.shards),
        f"{node.fires:,}",
        p50,
        p99,
    ]


def _shard_cells(shard: ShardState) -> list[str]:
    epoch, number = shard.watermark
    owned = "yes" if shard.owned else "no"
    lag = f"{shard.lag_s:.1f} s"
    return [
        str(shard.id),
        shard.owner or "-",
        owned,
        str(shard.epoch),
        f"{epoch}/{number}",
        lag,
        str(shard.unconfirmed),
    ]


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
