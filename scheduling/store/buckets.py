"""The ring of the bucketed store: where an entry is kept, and which parts of the ring a read has to look at.

::

    slot      …  61   62   63    0    1    2  …         minute of fire_at, modulo 64: a table each
    minute   now-1  now  +1 …                 +60       written ahead, read as it passes, truncated when it is empty
    bucket    one second of a minute: the unit that is read
    later     -1: beyond the horizon, moved into the ring by the promoter

An owner reads its shards from a *low* bucket on, below which it knows that nothing is left: so the dead rows of what
was consumed are not walked over again, even while an old snapshot keeps them from being cleared away. What full
tenants have left there is known by other means (set_aside.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from scheduling.core.clock import EPOCH

RING = 64  # tables, as migration 0003 made them
LATER = -1
MINUTE_S = 60
HORIZON = timedelta(hours=1)
_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(seconds=MINUTE_S)


def bucket_of(fire_at: datetime) -> int:
    """The second of a fire, counted from the Unix epoch."""
    return (fire_at - EPOCH) // _SECOND


def slot_of_bucket(bucket: int) -> int:
    """Within the horizon."""
    return bucket // MINUTE_S % RING


def horizon_from(now: datetime) -> datetime:
    """What fires before this is kept in the ring: whole minutes, so that a table is of one minute."""
    return EPOCH + ((now - EPOCH) // _MINUTE) * _MINUTE + HORIZON


def leaf(slot: int) -> str:
    """The table of a slot."""
    return "scheduling_entry_later" if slot == LATER else f"scheduling_entry_{slot:02}"


def idle_slots(now: datetime) -> list[int]:
    """All but those of the minutes round now, which are read and written all the time; the oldest first."""
    minute = (now - EPOCH) // _MINUTE
    return [(minute + ahead) % RING for ahead in range(3, RING - 1)]


class Lows:
    """From which bucket on each shard is to be read, in the ring and among what is later. One thread owns it."""

    def __init__(self) -> None:
        self._ring: dict[int, int] = {}
        self._later: dict[int, int] = {}
        self._slots: dict[int, dict[int, int]] = {}  # of a shard, where it is further in some slots of the ring

    def forget(self, shards: Iterable[int]) -> None:
        """Read these from the start: they were another's."""
        for shard in shards:
            self._ring.pop(shard, None)
            self._later.pop(shard, None)
            self._slots.pop(shard, None)

    def to_read(self, shards: Collection[int], high: int) -> dict[int, dict[int, int]]:
        """The slots to read up to bucket ``high``, the oldest first, each with its shards and their low buckets."""
        plan: dict[int, dict[int, int]] = {}
        starts = {shard: self._ring.get(shard, 0) for shard in shards}
        newest = high // MINUTE_S
        oldest = max(min(starts.values(), default=high) // MINUTE_S, newest - RING + 1)
        for minute in range(oldest, newest + 1):
            within = {shard: low for shard, low in starts.items() if low // MINUTE_S <= minute}
            if within := self._further(minute % RING, within, high):
                plan[minute % RING] = within
        overdue = {shard: low for shard in shards if (low := self._later.get(shard, 0)) <= high}
        return plan | {LATER: overdue} if overdue else plan

    def _further(self, slot: int, within: dict[int, int], high: int) -> dict[int, int]:
        if not self._slots:
            return within  # nearly always
        slots = self._slots
        lows = {shard: max(low, slots[shard].get(slot, 0)) if shard in slots else low for shard, low in within.items()}
        return {shard: low for shard, low in lows.items() if low <= high or low == within[shard]}

    def passed(self, shard: int, slot: int, bucket: int, *, high: int) -> None:
        """Of this shard nothing is left in this slot of the ring below the bucket. If that is ``high``, up to which was
        looked, there is nothing in the minute that the slot has now, either, but for the minute of ``high`` itself.
        """
        minute = high // MINUTE_S
        is_over = bucket >= high and slot != minute % RING
        next_minute = minute + (slot - minute) % RING  # that the slot is for
        self._slots.setdefault(shard, {})[slot] = next_minute * MINUTE_S if is_over else bucket

    def has_passed(self, shard: int) -> bool:
        """Whether in some slots less is left than ``ring`` says."""
        return shard in self._slots

    def later(self, shards: Collection[int]) -> dict[int, int]:
        """From where on the promoter looks."""
        return {shard: self._later.get(shard, 0) for shard in shards}

    def ring(self, shards: Iterable[int]) -> dict[int, int]:
        """From where on the ring is read."""
        return {shard: self._ring.get(shard, 0) for shard in shards}

    def left(self, shard: int, bucket: int) -> None:
        """The lowest bucket of the ring that holds anything of this shard: no use to look below."""
        self._ring[shard] = max(bucket, self._ring.get(shard, 0))

    def consumed(self, shards: Collection[int], high: int, left: Mapping[int, int]) -> None:
        """All entries up to ``high`` were read; ``left`` is each shard's lowest bucket among them."""
        for shard in shards:
            self._ring[shard] = min(left.get(shard, high), high)
            self._slots.pop(shard, None)

    def promoted(self, shards: Collection[int], horizon: datetime) -> None:
        """Nothing of these shards is left among what is later and comes before the horizon."""
        self._later |= dict.fromkeys(shards, bucket_of(horizon))

    def written(self, shard: int, bucket: int, slot: int) -> None:
        """An entry was written, perhaps below where we read from: the job clock may have been set back."""
        lows = self._later if slot == LATER else self._ring
        if bucket < lows.get(shard, 0):
            lows[shard] = bucket
        if bucket < self._slots.get(shard, {}).get(slot, 0):
            self._slots[shard][slot] = bucket

    def moved(self, shard: int, bucket: int) -> None:
        """Entries of this bucket, and perhaps later ones, came into the ring."""
        for slot in [*self._slots.get(shard, ()), slot_of_bucket(bucket)]:
            self.written(shard, bucket, slot)
