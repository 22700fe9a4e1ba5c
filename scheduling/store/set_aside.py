"""What full tenants have behind the low marks of the bucketed store: passed by while they are full, and read after.

The low marks say below which bucket nothing is left to be read. For the backlog of a full tenant they do not wait: what
it has is *set aside*, known by the first bucket in which it was seen, and the marks move on to what the others have. So
nobody's read walks through that backlog, however long it gets. Once the tenant is full no more, its buckets are read
one by one from there on, up to the marks::

    ──┬─────────────────────────────────┬──────────> bucket
      first seen  ──pass──>  at ──>     the marks: from here on it is read with the others

One pass after the other, so that an entry which nobody may claim for now stands in no other's way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from scheduling.core.effects import ReadDue
from scheduling.store.arrays import integers
from scheduling.store.buckets import Lows, bucket_of
from scheduling.store.connection import Connection
from scheduling.store.entries import BUCKET, SHARD, SLOT, TENANT, Kept
from scheduling.store.statements import statements

PAIRS = 256  # of a tenant and a shard, that are read together
PROBES = 8192  # buckets that are looked into for all of them
LEAST, MOST = 16, 512  # of those, for one pair

Pair = tuple[int, int]  # a tenant, and a shard


@dataclass(slots=True)
class _Pass:
    """From bucket ``low`` to the marks. ``at`` is how far it has come, ``left`` the lowest that it has found."""

    low: int
    at: int
    left: int | None = None


class SetAside:
    """One thread owns it."""

    def __init__(self, lows: Lows) -> None:
        self._lows = lows
        self._pairs: dict[Pair, _Pass] = {}  # those read last are the last

    def forget(self, shards: Collection[int]) -> None:
        self._pairs = {pair: known for pair, known in self._pairs.items() if pair[1] not in shards}

    def put(self, tenant: int, shard: int, bucket: int) -> None:
        """It has an entry in this bucket, and is full."""
        known = self._pairs.get((tenant, shard))
        if known is None or bucket < known.low:
            self._pairs[tenant, shard] = _Pass(bucket, bucket)

    def read(self, connection: Connection, look: ReadDue) -> tuple[list[Kept], set[Pair]]:
        """About as many entries as are asked for, of those that are not full; and who may have more of them."""
        free = [pair for pair in self._pairs if pair[1] in look.shards and pair[0] not in look.full]
        if not free:
            return [], set()
        now = free[:PAIRS]
        wanted = sum(look.most.get(tenant, look.limit) for tenant in {tenant for tenant, _ in now})
        share = 1 + min(look.limit, wanted) // len(now)
        high = bucket_of(look.until)
        span = max(LEAST, min(MOST, PROBES // len(now)))
        ends = {pair: min(self._pairs[pair].at + span - 1, self._end(pair[1], high)) for pair in now}
        values = {
            "tenants": integers(tenant for tenant, _ in now),
            "shards": integers(shard for _, shard in now),
            "lows": integers(self._pairs[pair].at for pair in now),
            "highs": integers(ends[pair] for pair in now),
            "until": look.until,
            "share": share,
        }
        rows = connection.execute(statements("buckets")["due_entries_behind"], values, binary=True).fetchall()
        buckets: dict[Pair, list[int]] = {pair: [] for pair in now}
        for row in rows:
            buckets[row[TENANT], row[SHARD]].append(row[BUCKET])
        for pair, found in buckets.items():
            self._go_on(pair, found, ends[pair], is_cut=len(found) >= share, end=self._end(pair[1], high))
        return [(row[SLOT], row) for row in rows], self._pairs.keys() & free

    def begin_with(self, entries: Iterable[Kept]) -> None:
        """They were found, but are too many for now: the next read begins with them."""
        for _, row in entries:
            pair, bucket = (row[TENANT], row[SHARD]), row[BUCKET]
            known = self._pairs.get(pair)
            if known is None:
                self._pairs[pair] = _Pass(bucket, bucket)
            else:
                known.at = min(known.at, bucket)

    def _end(self, shard: int, high: int) -> int:
        """From behind this bucket on everything is read with the others."""
        return high if self._lows.has_passed(shard) else self._lows.ring([shard])[shard]

    def _go_on(self, pair: Pair, found: Sequence[int], to: int, *, is_cut: bool, end: int) -> None:
        known = self._pairs.pop(pair)
        known.left = min((*found, *_some(known.left)), default=None)
        known.at = max(found) if is_cut else to + 1
        if known.at <= end:
            self._pairs[pair] = known
        elif known.left is not None:
            self._pairs[pair] = _Pass(known.left, known.left)


def _some(bucket: int | None) -> Iterable[int]:
    return () if bucket is None else (bucket,)
