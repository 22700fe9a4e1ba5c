"""Reads due jobs, fairly: beside one tenant's flood, the others are still seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import itemgetter

from psycopg.rows import TupleRow

from scheduling.core.planning import DueJob
from scheduling.core.turns import in_turns
from scheduling.store.connection import Connection
from scheduling.store.rows import NEXT_FIRE_AT, SHARD, TENANT_ID, due_job_of
from scheduling.store.shares import read_in_shares

SHARDS_IN_TURN = 8  # how many shards with a backlog are read together


class DueReader:
    """Reads by shard while everything due fits into one read; shards with a backlog in turns and by tenant, until it is
    gone.
    """

    def __init__(self, sql: Mapping[str, str]) -> None:
        self._sql = sql
        self._flooded: list[int] = []  # the next in turn first

    def read(self, connection: Connection, shards: frozenset[int], *, until: datetime, limit: int) -> list[DueJob]:
        """At most ``limit`` jobs whose next fire is not after ``until``."""
        others = [shard for shard in self._flooded if shard not in shards]  # they are looked at by themselves
        flooded = [shard for shard in self._flooded if shard in shards]
        rows = self._by_shard(connection, shards.difference(flooded), until, limit)
        if len(rows) >= limit:
            rows, flooded = [], [*flooded, *shards.difference(flooded)]
        still: list[int] = []
        while flooded and len(rows) < limit:
            turn, flooded = flooded[:SHARDS_IN_TURN], flooded[SHARDS_IN_TURN:]
            heads = self._by_tenant(connection, turn, until, limit)
            if len(heads) > limit // 2:
                still += turn
            rows += heads
        self._flooded = [*others, *flooded, *still]
        fair = in_turns(rows, limit, of=itemgetter(TENANT_ID), at=itemgetter(NEXT_FIRE_AT))
        return [due_job_of(row) for row in fair]

    def _by_shard(self, connection: Connection, shards: Collection[int], until: datetime, limit: int) -> list[TupleRow]:
        if not shards:
            return []
        values = {"shards": sorted(shards), "until": until, "limit": limit}
        return connection.execute(self._sql["due"], values).fetchall()

    def _by_tenant(self, connection: Connection, shards: Sequence[int], until: datetime, limit: int) -> list[TupleRow]:
        def read(pairs: Sequence[tuple[int, int]], share: int) -> list[TupleRow]:
            values = {
                "shards": [shard for shard, _ in pairs],
                "tenants": [tenant for _, tenant in pairs],
                "until": until,
                "share": share,
            }
            return connection.execute(self._sql["due_of_tenants"], values).fetchall()

        found = connection.execute(self._sql["tenants_due"], {"shards": shards, "until": until}).fetchall()
        pairs = [(shard, tenant) for shard, tenant in found]
        return read_in_shares(read, pairs, limit, group_of=itemgetter(SHARD, TENANT_ID))
