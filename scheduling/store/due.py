"""Reads due jobs, fairly: beside one tenant's flood, the others are still seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter

from psycopg.rows import TupleRow

from scheduling.core.due import Due
from scheduling.core.effects import ReadDue
from scheduling.core.turns import in_turns, left_out
from scheduling.store.arrays import integers
from scheduling.store.connection import Connection
from scheduling.store.rows import NEXT_FIRE_AT, SHARD, TENANT_ID, due_job_of
from scheduling.store.shares import read_in_shares

SHARDS_IN_TURN = 8  # how many shards with a backlog are read together, while nothing is known of them
PROBES = 2_000  # as many as take 10 to 20 ms: one for each tenant of each shard that is read together


class DueReader:
    """Reads by shard while everything due fits into one read; shards with a backlog in turns and by tenant, until it is
    gone. Within a tenant the earliest go first, over all shards that are read together: as many as few enough tenants
    have something to come in.

    Of full tenants nothing is read. Where they have something due their shard is read by tenant, too: by time the way
    to the others would lead through all of it.
    """

    def __init__(self, sql: Mapping[str, str]) -> None:
        self._sql = sql
        self._flooded: list[int] = []  # the next in turn first
        self._at_once = SHARDS_IN_TURN

    def read(self, connection: Connection, look: ReadDue) -> Due:
        others = [shard for shard in self._flooded if shard not in look.shards]  # they are looked at by themselves
        flooded = [shard for shard in self._flooded if shard in look.shards]
        if look.full:
            flooded += self._crowded(connection, look.shards.difference(flooded), look)
        plain = look.shards.difference(flooded)
        rows = self._by_shard(connection, plain, look)
        if len(rows) >= look.limit:
            rows, flooded, plain = [], [*flooded, *plain], frozenset()
        rows = [row for row in rows if row[TENANT_ID] not in look.full]  # that came due a moment ago
        seen, more = set(plain), set[tuple[int, int]]()
        still: list[int] = []
        widening = 1
        while flooded and len(rows) < look.limit and not self._is_enough(still):
            at_once = self._at_once * widening
            turn, flooded = flooded[:at_once], flooded[at_once:]
            heads, cut = self._by_tenant(connection, turn, look)
            if cut or len(heads) > look.limit // 2:
                still += turn
            else:
                widening *= 2  # there is not so much
            rows += heads
            seen.update(turn)
            more |= cut
        self._flooded = [*others, *flooded, *still]
        fair = in_turns(rows, look.limit, of=itemgetter(TENANT_ID), at=itemgetter(NEXT_FIRE_AT), most=look.most)
        more |= left_out(rows, fair, of=itemgetter(TENANT_ID, SHARD))
        return Due([due_job_of(row) for row in fair], frozenset(seen), frozenset(more))

    def _is_enough(self, still: Collection[int]) -> bool:
        """For one read, of shards with a backlog: where its tenants may have no more, rows alone would never be enough,
        and all shards would be walked, however many tenants are in them.
        """
        return len(still) >= max(SHARDS_IN_TURN, 2 * self._at_once)

    def _crowded(self, connection: Connection, shards: Collection[int], look: ReadDue) -> list[int]:
        values = {"shards": sorted(shards), "until": look.until, "full": integers(look.full)}
        return [shard for (shard,) in connection.execute(self._sql["crowded"], values).fetchall()]

    def _by_shard(self, connection: Connection, shards: Collection[int], look: ReadDue) -> list[TupleRow]:
        if not shards:
            return []
        values = {"shards": sorted(shards), "until": look.until, "limit": look.limit}
        return connection.execute(self._sql["due"], values).fetchall()

    def _by_tenant(
        self, connection: Connection, shards: Sequence[int], look: ReadDue
    ) -> tuple[list[TupleRow], set[tuple[int, int]]]:
        """And of whom there may be more, as (tenant, shard)."""

        def read(pairs: Sequence[tuple[int, int]], share: int) -> list[TupleRow]:
            values = {
                "shards": [shard for _, shard in pairs],
                "tenants": [tenant for tenant, _ in pairs],
                "until": look.until,
                "share": share,
            }
            return connection.execute(self._sql["due_of_tenants"], values).fetchall()

        values = {"shards": shards, "until": look.until, "full": integers(look.full)}
        found = connection.execute(self._sql["tenants_due"], values).fetchall()
        for *_, present in found[:1]:
            self._at_once = max(1, PROBES * len(shards) // present)
        tenants = {tenant for tenant, *_ in found}
        limit = min(look.limit, sum(look.most.get(tenant, look.limit) for tenant in tenants))
        heads = in_turns(found, limit, of=itemgetter(0), at=itemgetter(2), most=look.most)
        pairs = [(tenant, shard) for tenant, shard, *_ in heads]
        rows, more = read_in_shares(read, pairs, limit, group_of=itemgetter(TENANT_ID, SHARD))
        return rows, more | {(tenant, shard) for tenant, shard, *_ in found}.difference(pairs)
