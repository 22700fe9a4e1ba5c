"""Of shards with more entries than fit into a claim: some of every tenant, wherever they lie in the backlog.

A skip scan finds which tenants have entries in which buckets, so many at a time, from three places on::

    oldest ──64──>       …──64──>                         <──64── newest
    who waits longest    from where the last look ended    who is due just now

Of each such pair of bucket and tenant the earliest are read, an equal share. So a flood hides nobody who is due now,
and nobody in its midst for longer than it takes to walk through it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter

from psycopg.rows import TupleRow

from scheduling.store.arrays import integers
from scheduling.store.buckets import Lows
from scheduling.store.connection import Connection
from scheduling.store.entries import BUCKET, SHARD, TENANT, Kept, leaf_sql, owned
from scheduling.store.shares import read_in_shares
from scheduling.store.statements import statements

STEPS = 64  # pairs of a shard that are looked at from each of the three places
Pair = tuple[int, int, int]  # shard, bucket, tenant
Place = tuple[int, int]  # bucket, tenant
OLDEST = (0, 0)
Slots = Sequence[tuple[int, Mapping[int, int]]]  # with the shards to read there, and their lows


class BucketBacklog:
    """Raises the lows of the shards that it reads: of a long backlog what was consumed is not walked over again."""

    def __init__(self, lows: Lows) -> None:
        self._lows = lows
        self._ends: dict[int, Place] = {}  # where the last look into a shard's midst ended

    def read(
        self, connection: Connection, shards: Sequence[int], *, until: datetime, high: int, limit: int
    ) -> list[Kept]:
        """About ``limit`` entries up to bucket ``high``, or one of each pair that was found."""
        self._raise_lows(connection, shards)
        found = self._pairs(connection, shards, high)
        pairs = sum(len(of_slot) for of_slot in found.values())
        entries: list[Kept] = []
        for slot, of_slot in found.items():
            share = max(len(of_slot), limit * len(of_slot) // pairs)
            entries += [(slot, row) for row in self._heads(connection, slot, sorted(of_slot), until, share)]
        return entries

    def _raise_lows(self, connection: Connection, shards: Iterable[int]) -> None:
        values = owned(self._lows.ring(shards))
        for shard, bucket in connection.execute(statements("buckets")["lowest"], values).fetchall():
            self._lows.left(shard, bucket)

    def _pairs(self, connection: Connection, shards: Sequence[int], high: int) -> dict[int, set[Pair]]:
        """By slot."""
        slots: Slots = list(self._lows.to_read(shards, high).items())
        found: dict[int, set[Pair]] = defaultdict(set)
        ends = self._upward(connection, slots, dict.fromkeys(shards, OLDEST), high, found)
        midst = {shard: max(end, self._ends.get(shard, OLDEST)) for shard, end in ends.items()}
        self._ends = self._of_others(shards) | self._upward(connection, slots, midst, high, found)
        self._downward(connection, slots, ends, high, found)
        return found

    def _of_others(self, shards: Collection[int]) -> dict[int, Place]:
        return {shard: end for shard, end in self._ends.items() if shard not in shards}

    def _upward(
        self, connection: Connection, slots: Slots, starts: Mapping[int, Place], high: int, found: dict[int, set[Pair]]
    ) -> dict[int, Place]:
        """From behind these places on; gives where it ended, of the shards that have more."""
        left, ends = dict.fromkeys(starts, STEPS), dict(starts)
        for slot, lows in slots:
            if places := {s: max(starts[s], (low, 0)) for s, low in lows.items() if left.get(s, 0) > 0}:
                values = {
                    "shards": integers(places),
                    "buckets": integers(bucket for bucket, _ in places.values()),
                    "tenants": integers(tenant for _, tenant in places.values()),
                    "high": high,
                    "steps": STEPS,
                }
                for pair in connection.execute(leaf_sql(slot)["tenants_upward"], values).fetchall():
                    shard, bucket, tenant = pair
                    found[slot].add((shard, bucket, tenant))
                    left[shard] -= 1
                    ends[shard] = max(ends[shard], (bucket, tenant))
        return {shard: end for shard, end in ends.items() if left[shard] <= 0}

    def _downward(
        self, connection: Connection, slots: Slots, shards: Iterable[int], high: int, found: dict[int, set[Pair]]
    ) -> None:
        left = dict.fromkeys(shards, STEPS)
        for slot, lows in reversed(slots):
            if wanted := {shard: low for shard, low in lows.items() if left.get(shard, 0) > 0}:
                values = owned(wanted) | {"high": high, "steps": STEPS}
                for shard, bucket, tenant in connection.execute(leaf_sql(slot)["tenants_downward"], values).fetchall():
                    found[slot].add((shard, bucket, tenant))
                    left[shard] -= 1

    def _heads(
        self, connection: Connection, slot: int, pairs: Sequence[Pair], until: datetime, limit: int
    ) -> list[TupleRow]:
        def read(of: Sequence[Pair], share: int) -> list[TupleRow]:
            values = {
                "shards": integers(shard for shard, _, _ in of),
                "buckets": integers(bucket for _, bucket, _ in of),
                "tenants": integers(tenant for _, _, tenant in of),
                "until": until,
                "share": share,
            }
            return connection.execute(leaf_sql(slot)["due_entries_of_tenants"], values, binary=True).fetchall()

        return read_in_shares(read, pairs, limit, group_of=itemgetter(SHARD, BUCKET, TENANT))
