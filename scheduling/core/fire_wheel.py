"""A node's fires until they are due: by job time, and by real time for those that are held up.

Of a shard that is leaving none is taken in: its next owner recovers it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from math import inf

from scheduling.core.clock import Clock
from scheduling.core.fire import Fire
from scheduling.core.hand_over import HandOvers
from scheduling.core.timing_wheel import TimingWheel, tick_of

STANDS_STILL_S = 0.5  # how often it is asked whether job time goes on


class FireWheel:
    """Times are monotonic seconds. One thread owns it."""

    __slots__ = ("_clock", "_leaving", "_wheel")

    def __init__(self, clock: Clock, leaving: HandOvers) -> None:
        self._clock, self._leaving = clock, leaving
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
        self._wheel.add(tick_of(due_at) + 1, fire)

    def hold(self, fire: Fire, until: float) -> None:
        """Until then, whatever its ``fire_at``."""
        if fire.work.shard not in self._leaving:
            self._wheel.add(tick_of(until) + 1, fire)

    def due(self, now: float) -> list[Fire]:
        """Take out what is due by now."""
        return self._wheel.advance(tick_of(now))

    def next_at(self) -> float:
        """When something may be due; ``inf`` if there is nothing."""
        tick = self._wheel.next_deadline()
        return inf if tick is None else tick / 1000

    def drop(self, shards: Collection[int]) -> None:
        """Forget the fires of these."""
        self._wheel.remove_if(lambda fire: fire.work.shard in shards)

    def crowded_by(self, most: int) -> frozenset[int]:
        """The tenants that have more than so many here. They are counted, which takes 0.3 µs for each fire."""
        counts = Counter(fire.work.tenant_id for fire in self._wheel)
        return frozenset(tenant for tenant, count in counts.items() if count > most)
