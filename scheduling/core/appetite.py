"""How much a node takes in at present: of all, and of whom nothing, or no more than so much.

It has room for so many fires, in its wheel and with the broker. Of a tenant that has turns here it wants about as many
heads as it is served in a second: more would only wait here, and be stored again. Who has so many is *full*.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from scheduling.core.engine_limits import EngineLimits
from scheduling.core.fair_turns import FairTurns
from scheduling.core.fire_wheel import FireWheel
from scheduling.core.gates import BROKER, Gates
from scheduling.core.outstanding import Outstanding
from scheduling.core.turns import NO_BOUNDS

FULL_S = 0.05  # for so long it is known who is full
CROWDED_S = 0.25  # and who crowds the wheel: five milliseconds for 20,000 fires
LEAST = 250  # fires in one read
PRECEDENCE = 2  # times as much of a tenant may wait here until what waits in the store is left out, too


class Appetite:
    """Times are monotonic seconds. One thread owns it. Without ``turns`` nobody is full."""

    def __init__(
        self,
        limits: EngineLimits,
        *,
        outstanding: Outstanding,
        wheel: FireWheel,
        gates: Gates,
        turns: FairTurns | None,
    ) -> None:
        self._limits, self._outstanding, self._wheel, self._gates = limits, outstanding, wheel, gates
        self._turns = turns
        self._asked_at = self._counted_at = -inf
        self._full = self._crowding = frozenset[int]()
        self.most: Mapping[int, int] = NO_BOUNDS  # of whom something waits, though not enough: so many more are

    def takes_more(self, now: float) -> bool:
        """The broker takes what it is given, and has not too much of it."""
        return len(self._outstanding.in_flight) < self._limits.backlog and now >= self._gates.opens_at(BROKER)

    def room(self, now: float) -> int:
        """For so many more fires."""
        if not self.takes_more(now):
            return 0
        return min(self.batch(now), self._limits.ahead - len(self._wheel) - len(self._outstanding.in_flight))

    def batch(self, now: float) -> int:
        """How many fires to read at once: what is read and cannot go within a second is stored again."""
        turns = self._turns
        if turns is None or any(room.limit is None for room in turns.rooms.values()):
            return self._limits.batch
        return min(self._limits.batch, max(LEAST, turns.granted_in_a_second(now) // 2))

    def ask(self, now: float) -> bool:
        """Who is full? True: somebody is so no longer."""
        if self._turns is None or now < self._asked_at + FULL_S:
            return False
        before, self._asked_at = self._full, now
        self._full, self.most = self._turns.full_and_most(now)
        if now >= self._counted_at + CROWDED_S:
            self._counted_at = now
            is_crowded = len(self._wheel) > self._limits.ahead // 2  # the others need room for what they have due
            self._crowding = self._wheel.crowded_by(self._limits.ahead // 4) if is_crowded else frozenset()
        return bool(before - self._full)

    @property
    def full(self) -> frozenset[int]:
        """Tenants that have enough here: nothing is read of what they have due."""
        return self._full | self._crowding

    def overfull(self, now: float) -> frozenset[int]:
        """Those of whom what waits in the store is not read, either. It has precedence: new jobs of a flood would keep
        its tenant full, and what waits for a retry for ever where it is.
        """
        if not self._full or self._turns is None:
            return self.full
        return self.full - (self._full - self._turns.full(now, PRECEDENCE))
