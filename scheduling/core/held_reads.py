"""What of a node's shards is with the workers already: read when they are taken over, and when bounds are new.

::

    take ──> untouched ── ReadHeld ──> known: what was recovered goes on
    count_anew ────────── ReadHeld ──> what is in flight has its places

Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf

from scheduling.core.effects import ReadHeld
from scheduling.core.fire import Fire
from scheduling.core.runs import Held

AGAIN_S = 0.5  # after a read that failed


class HeldReads:
    """Nothing is read before ``begin`` may. One thread owns it."""

    def __init__(self) -> None:
        self._reading: dict[int, ReadHeld | None] = {}  # shards that are not to be touched yet; None: yet to be read
        self._recovered: dict[int, list[Fire]] = {}
        self._at = inf
        self._counting: ReadHeld | None = None
        self._is_to_count = False

    @property
    def untouched(self) -> Collection[int]:
        """Shards of which it is not known yet what they have with the workers."""
        return self._reading.keys()

    def take(self, shards: Collection[int], recovered: Iterable[Fire]) -> None:
        self._reading |= dict.fromkeys(shards)
        self._recovered |= {shard: [] for shard in shards}
        for fire in recovered:
            self._recovered[fire.work.shard].append(fire)
        self._at = 0.0

    def count_anew(self) -> None:
        """There are bounds now where there were none: what went without a place has one."""
        self._is_to_count = True
        self._at = 0.0

    def forget(self, shards: Collection[int]) -> None:
        for shard in shards:
            self._reading.pop(shard, None)
            self._recovered.pop(shard, None)

    def next_at(self) -> float:
        return self._at if self._is_to_count or None in self._reading.values() else inf

    def begin(self, now: float, shards: Collection[int]) -> list[ReadHeld]:
        """``shards``: all that are ours."""
        if now < self.next_at():
            return []
        found = []
        if unread := [shard for shard, effect in self._reading.items() if effect is None]:
            taken = ReadHeld(frozenset(unread))
            self._reading |= dict.fromkeys(unread, taken)
            found.append(taken)
        if self._is_to_count:
            self._is_to_count = False
            if others := frozenset(shards) - self._reading.keys():
                self._counting = ReadHeld(others)
                found.append(self._counting)
        return found

    def known(self, effect: ReadHeld, held: Held, shards: Collection[int]) -> tuple[Held, list[Fire]]:
        """Of those of its shards that are still ours: what is in flight, and who is held; of those that were taken also
        what was recovered, which may go on now.
        """
        if effect is self._counting:
            self._counting = None
            ours = effect.shards & frozenset(shards) - self._reading.keys()
            return Held([one for one in held.in_flight if one.fire.work.shard in ours]), []
        taken = [shard for shard in effect.shards if self._reading.get(shard) is effect]
        recovered: list[Fire] = []
        for shard in taken:
            del self._reading[shard]
            recovered += self._recovered.pop(shard)
        in_flight = [one for one in held.in_flight if one.fire.work.shard in taken]
        return Held(in_flight, {key: since for key, since in held.since.items() if key[1] in taken}), recovered

    def failed(self, effect: ReadHeld, now: float) -> None:
        """They are read again."""
        if effect is self._counting:
            self._counting, self._is_to_count = None, True
        for shard in effect.shards:
            if self._reading.get(shard) is effect:
                self._reading[shard] = None
        self._at = now + AGAIN_S
