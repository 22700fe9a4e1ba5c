"""For want of workers: of which shards more is due than a node reads, and since when.

A node whose lanes have no room reads no more at once than can go soon; what is due beyond that waits where it is,
whoever's it is. No limit of its own tenant holds it, but it is not late by us either: workers are too few. So the time
of the shortage is no lateness, as that of a hold is not.

A look that leaves something behind while there is no room begins it, and goes on with it; without one for LASTS_S it
is over. So what is late since nobody could read anything is late. It is not told to the next owner of a shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from scheduling.core.due import Due, DueJob
from scheduling.core.effects import ReadDue
from scheduling.core.holds import Key

LASTS_S = 10.0


class Shortage:
    """Times are monotonic seconds, but for ``since``, which is job time. One thread owns it."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[datetime, float]] = {}  # by shard; and when it was seen last

    def looked(self, effect: ReadDue, found: Due, left: Iterable[Key], now: float, job_now: datetime) -> None:
        """A look has ended while there is no room. ``left`` is what it found and is not to be claimed yet."""
        behind = effect.shards - found.seen | {shard for _, shard in (*found.more, *left)}
        for shard in behind:
            self._since[shard] = (self.since(shard, now) or job_now, now)

    def since(self, shard: int, now: float) -> datetime | None:
        known = self._since.get(shard)
        return None if known is None or known[1] + LASTS_S < now else known[0]

    def held(self, holds: Mapping[Key, datetime], jobs: Iterable[DueJob], now: float) -> Mapping[Key, datetime]:
        """Since when the tenants of these jobs are held there, by the earlier of both."""
        if not self._since:
            return holds
        held: dict[Key, datetime] = {}
        for job in jobs:
            key = job.work.tenant_id, job.work.shard
            times = [at for at in (holds.get(key), self.since(key[1], now)) if at is not None]
            if times:
                held[key] = min(times)
        return held
