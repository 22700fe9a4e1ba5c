"""Reads due jobs, fairly: beside one tenant's flood, the others are still seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import islice, zip_longest
from operator import itemgetter

from psycopg.rows import TupleRow

from scheduling.core.planning import DueJob
from scheduling.store.connection import Connection
from scheduling.store.rows import NEXT_FIRE_AT, TENANT_ID, due_job_of

SHARDS_IN_TURN = 8  # how many shards with a backlog one read visits


class DueReader:
    """Reads by shard while everything due fits into one read; shards with a backlog in turns, by tenant, until it is
    gone.
    """

    def __init__(self, sql: Mapping[str, str]) -> None:
        self._sql = sql
        self._flooded: list[int] = []  # the next in turn first

    def read(self, connection: Connection, shards: frozenset[int], *, until: datetime, limit: int) -> list[DueJob]:
        """At most ``limit`` jobs whose next fire is not after ``until``."""
        flooded = [shard for shard in self._flooded if shard in shards]
        rows = self._rows(connection, "due", shards.difference(flooded), until, limit)
        if len(rows) >= limit:
            rows, flooded = [], [*flooded, *shards.difference(flooded)]
        if flooded:
            turn = flooded[:SHARDS_IN_TURN]
            heads = self._rows(connection, "due_by_tenant", turn, until, limit)
            rest = turn if len(heads) > limit // 2 else []
            self._flooded = [*flooded[SHARDS_IN_TURN:], *rest]
            rows += heads
        return [due_job_of(row) for row in in_turns(rows, limit, NEXT_FIRE_AT)]

    def _rows(
        self, connection: Connection, name: str, shards: Collection[int], until: datetime, limit: int
    ) -> list[TupleRow]:
        if not shards:
            return []
        values = {"shards": sorted(shards), "until": until, "limit": limit}
        return connection.execute(self._sql[name], values).fetchall()


def in_turns(rows: Sequence[TupleRow], limit: int, at: int) -> list[TupleRow]:
    """At most ``limit`` rows: the earliest of each tenant by the column ``at``, then the second of each, and so on."""
    if len(rows) <= limit:
        return list(rows)
    by_tenant: dict[int, list[TupleRow]] = defaultdict(list)
    for row in sorted(rows, key=itemgetter(at)):
        by_tenant[row[TENANT_ID]].append(row)
    turns = (row for turn in zip_longest(*by_tenant.values()) for row in turn if row is not None)
    return list(islice(turns, limit))
