"""Of shards with more entries than fit into a claim: some of every tenant, wherever they lie in the backlog.

A skip scan finds which tenants have entries in which buckets, so many at a time, from three places on::

    oldest ──64──>       …──64──>                         <──64── newest
    who waits longest    from where the last look ended    who is due just now

Of each such pair of bucket and tenant the earliest are read, an equal share. So a flood hides nobody who is due now,
and nobody in its midst for longer than it takes to walk through it.

What full tenants have is walked over but once: as the walk from the oldest place meets it, it is set aside, and the
next one begins behind it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter

from psycopg.rows import TupleRow

from scheduling.core.effects import ReadDue
from scheduling.store.arrays import integers
from scheduling.store.buckets import LATER, Lows, bucket_of
from scheduling.store.connection import Connection
from scheduling.store.entries import BUCKET, SHARD, TENANT, Kept, leaf_sql, owned
from scheduling.store.set_aside import SetAside
from scheduling.store.shares import read_in_shares
from scheduling.store.statements import statements

STEPS = 64  # pairs of a shard that are looked at from each of the three places
STEPS_OVER_FULL = 4  # times as many, where some may be of full tenants
Pair = tuple[int, int, int]  # shard, bucket, tenant
Place = tuple[int, int]  # bucket, tenant
OLDEST = (0, 0)
Slots = Sequence[tuple[int, Mapping[int, int]]]  # with the shards to read there, and their lows


class BucketBacklog:
    """Raises the lows of the shards that it reads: of a long backlog what was consumed is not walked over again."""

    def __init__(self, lows: Lows, aside: SetAside) -> None:
        self._lows, self._aside = lows, aside
        self._ends: dict[int, Place] = {}  # where the last look into a shard's midst ended

    def read(
        self, connection: Connection, shards: Sequence[int], look: ReadDue
    ) -> tuple[list[Kept], set[int], set[tuple[int, int]]]:
        """Of these shards about as many entries as are asked for, or one of each pair that was found; the shards of
        which all pairs were; and who may have more of them, as (tenant, shard).
        """
        high = bucket_of(look.until)
        if not look.full:
            self._raise_lows(connection, shards)
        slots: Slots = list(self._lows.to_read(shards, high).items())
        walk = _Walk(connection, slots, high, look.full)
        ends = walk.upward(dict.fromkeys(shards, OLDEST))
        if look.full:
            self._pass_by(walk, slots, high)
        midst = {shard: max(end, self._ends.get(shard, OLDEST)) for shard, end in ends.items()}
        self._ends = self._of_others(shards) | walk.upward(midst)
        walk.downward(ends)
        entries, more = self._entries(connection, walk.found, look)
        return entries, set(shards).difference(ends), more

    def _raise_lows(self, connection: Connection, shards: Iterable[int]) -> None:
        values = owned(self._lows.ring(shards))
        for shard, bucket in connection.execute(statements("buckets")["lowest"], values).fetchall():
            self._lows.left(shard, bucket)

    def _pass_by(self, walk: _Walk, slots: Slots, high: int) -> None:
        """What the walk from the oldest place has met of full tenants."""
        for slot, lows in slots:
            for shard in lows:
                places = walk.places.get((slot, shard))
                if slot == LATER or places is None:
                    continue  # it is not in the ring; or the walk has not come so far
                others = [bucket for bucket, tenant in places if tenant not in walk.full]
                ended = places[-1][0] if len(places) >= walk.steps else high
                for bucket, tenant in places:
                    if tenant in walk.full:
                        self._aside.put(tenant, shard, bucket)
                self._lows.passed(shard, slot, min([*others, ended]), high=high)

    def _of_others(self, shards: Collection[int]) -> dict[int, Place]:
        return {shard: end for shard, end in self._ends.items() if shard not in shards}

    def _entries(
        self, connection: Connection, found: Mapping[int, set[Pair]], look: ReadDue
    ) -> tuple[list[Kept], set[tuple[int, int]]]:
        pairs = sum(len(of_slot) for of_slot in found.values())
        entries: list[Kept] = []
        more: set[tuple[int, int]] = set()
        for slot, of_slot in found.items():
            share = max(len(of_slot), look.limit * len(of_slot) // pairs)
            rows, cut = self._heads(connection, slot, sorted(of_slot), look.until, share)
            entries += [(slot, row) for row in rows]
            more |= {(tenant, shard) for shard, _, tenant in cut}
        return entries, more

    def _heads(
        self, connection: Connection, slot: int, pairs: Sequence[Pair], until: datetime, limit: int
    ) -> tuple[list[TupleRow], set[Pair]]:
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


class _Walk:
    """Over these slots, up to bucket ``high``; what it finds of tenants that are not full is ``found``, by slot."""

    def __init__(self, connection: Connection, slots: Slots, high: int, full: frozenset[int]) -> None:
        self._connection, self._slots, self._high, self.full = connection, slots, high, full
        self.steps = STEPS * STEPS_OVER_FULL if full else STEPS
        self.found: dict[int, set[Pair]] = defaultdict(set)
        self.places: dict[tuple[int, int], list[Place]] = {}  # of a slot and a shard, in order, full tenants' too

    def upward(self, starts: Mapping[int, Place]) -> dict[int, Place]:
        """From behind these places on; gives where it ended, of the shards that have more."""
        left, ends = dict.fromkeys(starts, self.steps), dict(starts)
        for slot, lows in self._slots:
            if places := {s: max(starts[s], (low, 0)) for s, low in lows.items() if left.get(s, 0) > 0}:
                values = {
                    "shards": integers(places),
                    "buckets": integers(bucket for bucket, _ in places.values()),
                    "tenants": integers(tenant for _, tenant in places.values()),
                    "high": self._high,
                    "steps": self.steps,
                }
                pairs = self._connection.execute(leaf_sql(slot)["tenants_upward"], values).fetchall()
                self.places |= {(slot, shard): [] for shard in places}
                for shard, bucket, tenant in pairs:
                    self._add(slot, shard, bucket, tenant)
                    self.places[slot, shard].append((bucket, tenant))
                    left[shard] -= 1
                    ends[shard] = max(ends[shard], (bucket, tenant))
        return {shard: end for shard, end in ends.items() if left[shard] <= 0}

    def downward(self, shards: Iterable[int]) -> None:
        """From the newest on."""
        left = dict.fromkeys(shards, self.steps)
        for slot, lows in reversed(self._slots):
            if wanted := {shard: low for shard, low in lows.items() if left.get(shard, 0) > 0}:
                values = owned(wanted) | {"high": self._high, "steps": self.steps}
                pairs = self._connection.execute(leaf_sql(slot)["tenants_downward"], values).fetchall()
                for shard, bucket, tenant in pairs:
                    self._add(slot, shard, bucket, tenant)
                    left[shard] -= 1

    def _add(self, slot: int, shard: int, bucket: int, tenant: int) -> None:
        if tenant not in self.full:
            self.found[slot].add((shard, bucket, tenant))
