"""Reads due jobs, fairly: beside one tenant's flood, the others are still seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice, zip_longest
from operator import itemgetter

from psycopg.rows import TupleRow

from scheduling.core.planning import DueJob
from scheduling.store.connection import Connection
from scheduling.store.rows import NEXT_FIRE_AT, SHARD, TENANT_ID, due_job_of

HEADS = 8  # a read by tenant takes this part of its limit from each tenant of a shard


class DueReader:
    """Reads by shard while everything due fits; a shard with a backlog by tenant, until it is gone."""

    def __init__(self, sql: Mapping[str, str]) -> None:
        self._sql = sql
        self._flooded: frozenset[int] = frozenset()

    def read(self, connection: Connection, shards: frozenset[int], *, until: datetime, limit: int) -> list[DueJob]:
        """At most ``limit`` jobs whose next fire is not after ``until``."""
        flooded = self._flooded & shards
        rows = self._rows(connection, "due", shards - flooded, until, limit)
        if len(rows) >= limit:
            flooded = shards
        if flooded:
            heads = self._rows(connection, "due_by_tenant", flooded, until, max(1, limit // HEADS))
            rows = [row for row in rows if row[SHARD] not in flooded] + heads
            self._flooded = flooded if len(rows) >= limit else frozenset()
        return [due_job_of(row) for row in in_turns(rows, limit, NEXT_FIRE_AT)]

    def _rows(
        self, connection: Connection, name: str, shards: frozenset[int], until: datetime, limit: int
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
