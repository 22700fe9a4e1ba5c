"""Which shards are being looked after: a shard ticks whenever a look at its due rows, and the claim that came of it,
have succeeded.

A node expects ticks of the shards that are to be its own, from the moment at which it heard so. Thus a take-over that
does not come about, a store that does not answer, and a claim that fails time and again all end in the same silence.
A few shards more, or fewer, leave a node that ticks as it is.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf


class Ticks:
    """Times are monotonic seconds. One thread writes, any may read meanwhile."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}  # replaced as a whole where shards come or go

    def expect(self, shards: Collection[int], now: float) -> None:
        """Of these, and of no others. What joins others counts as having ticked ``now``; the first ones, as never."""
        if self._at.keys() != shards:
            came = now if self._at else -inf
            self._at = {shard: self._at.get(shard, came) for shard in shards}

    def tick(self, shards: Collection[int], now: float) -> None:
        """They were looked after. What is not expected is left out."""
        at = self._at
        for shard in at.keys() & shards:
            at[shard] = now

    @property
    def count(self) -> int:
        """How many are expected."""
        return len(self._at)

    def silent(self, since: float) -> list[int]:
        """Those whose last tick, or their coming, was before ``since``."""
        return sorted(shard for shard, at in self._at.items() if at < since)
