"""A node's fires until they are due: by job time, and by real time for those that are held up.

Of a shard that is leaving none is taken in: its next owner recovers it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from math import inf

from scheduling.core.clock import Clock
from scheduling.core.fire import Fire
from scheduling.core.hand_over import HandOvers
from scheduling.core.timing_wheel import TimingWheel, tick_of

STANDS_STILL_S = 0.5  # how often it is asked whether job time goes on


class FireWheel:
    """``counts``: by tenant. Times are monotonic seconds. One thread owns it."""

    __slots__ = ("_clock", "_leaving", "_tenants", "_wheel")

    def __init__(self, clock: Clock, leaving: HandOvers, *, counts: bool = False) -> None:
        self._clock, self._leaving = clock, leaving
        self._tenants: Counter[int] | None = Counter() if counts else None
        self._wheel: TimingWheel[Fire] = TimingWheel(tick_of(clock.monotonic()))

    def __len__(self) -> int:
        return len(self._wheel)

    def add(self, fire: Fire) -> None:
        """Until job time gets to its ``fire_at``; a retry is due already."""
        if fire.work.shard in self._leaving:
            return
        due_at = self._clock.real_time(fire.fire_at) if fire.attempt == 0 else 0.0
        if due_at == inf:
            due_at = self._clock.monotonic() + STANDS_STILL_S
        self._add(tick_of(due_at) + 1, fire)

    def hold(self, fire: Fire, until: float) -> None:
        """Until then, whatever its ``fire_at``."""
        if fire.work.shard not in self._leaving:
            self._add(tick_of(until) + 1, fire)

    def _add(self, tick: int, fire: Fire) -> None:
        self._wheel.add(tick, fire)
        if self._tenants is not None:
            self._tenants[fire.work.tenant_id] += 1

    def due(self, now: float) -> list[Fire]:
        """Take out what is due by now."""
        due = self._wheel.advance(tick_of(now))
        self._uncount(due)
        return due

    def next_at(self) -> float:
        """When something may be due; ``inf`` if there is nothing."""
        tick = self._wheel.next_deadline()
        return inf if tick is None else tick / 1000

    def drop(self, shards: Collection[int]) -> None:
        """Forget the fires of these."""
        self._uncount(self._wheel.remove_if(lambda fire: fire.work.shard in shards))

    def _uncount(self, fires: Sequence[Fire]) -> None:
        if self._tenants is not None:
            for fire in fires:
                self._tenants[fire.work.tenant_id] -= 1
                if not self._tenants[fire.work.tenant_id]:
                    del self._tenants[fire.work.tenant_id]

    def crowded_by(self, most: int) -> frozenset[int]:
        """The tenants that have more than so many here, where they are counted."""
        if self._tenants is None:
            return frozenset()
        return frozenset(tenant for tenant, count in self._tenants.items() if count > most)
