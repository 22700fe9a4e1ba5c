"""What the owner of shards does for them from time to time, whatever is due: reap, promote, expire, redrive."""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.core.clock import Clock
from scheduling.core.effects import Effect, Expire, Promote, Reap, Redrive
from scheduling.core.marks import Marks

REAP_S = 0.5  # a run whose lease is out waits for it
PROMOTE_S = 1.0
EXPIRE_S = 60.0
REDRIVE_S = 1.0


class Upkeep:
    """Under the epochs in ``marks``. Times are monotonic seconds. One thread owns it."""

    def __init__(self, clock: Clock, marks: Marks) -> None:
        self._clock, self._marks = clock, marks
        self._reap_at = self._promote_at = self._expire_at = self._redrive_at = 0.0

    def next_at(self) -> float:
        """When there is something to do. Nobody is woken to expire or redrive: that goes with what is as frequent."""
        return min(self._reap_at, self._promote_at)

    def begin(self, shards: frozenset[int], now: float) -> Iterator[Effect]:
        """What is to be done now for these shards of ours."""
        if now >= self._reap_at:
            self._reap_at = now + REAP_S
            yield Reap(self._marks.epochs(shards), self._clock.now())
        if now >= self._promote_at:
            self._promote_at = now + PROMOTE_S
            yield Promote(self._marks.epochs(shards), self._clock.now())
        if now >= self._expire_at and 0 in shards:
            self._expire_at = now + EXPIRE_S
            yield Expire(shards, self._clock.now())
        if now >= self._redrive_at and 0 in shards:
            self._redrive_at = now + REDRIVE_S
            yield Redrive(self._clock.now())

    def reap_again(self) -> None:
        """One round may not have ended them all."""
        self._reap_at = 0.0

    def promote_again(self) -> None:
        """One round has not moved them all."""
        self._promote_at = 0.0
