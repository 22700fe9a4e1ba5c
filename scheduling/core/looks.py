"""When to look for due jobs: by halves of the shards, so that one half is planned while the store writes the claim of
the other.

At most one claim of a half is under way: a look in between would find again what it takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import inf

from scheduling.core.ticks import Ticks

HALVES = 2


class Looks:
    """Times are monotonic seconds. One thread owns it. What succeeds is told to ``ticks``."""

    def __init__(self, ticks: Ticks) -> None:
        self._ticks = ticks
        self._at = [0.0] * HALVES
        self._is_busy = [False] * HALVES

    def now(self) -> None:
        """Something became due: look as soon as can be."""
        self._at = [0.0] * HALVES

    def next_at(self, shards: Collection[int]) -> float:
        """When the next look is due; ``inf`` while all are under way."""
        return min((self._at[half] for half in _halves(shards) if not self._is_busy[half]), default=inf)

    def begin(self, shards: frozenset[int], now: float, *, every_s: float) -> Iterator[frozenset[int]]:
        """The shards to look at now, by halves whose time has come; their next is then ``every_s`` away."""
        for half in _halves(shards):
            if now >= self._at[half] and not self._is_busy[half]:
                self._at[half] = now + every_s
                yield frozenset(shard for shard in shards if shard % HALVES == half)

    def start(self, shards: Collection[int]) -> None:
        """A look at these is under way."""
        for half in _halves(shards):
            self._is_busy[half] = True

    def end(self, shards: Collection[int]) -> None:
        """The look at these, and the claim that came of it, are over."""
        for half in _halves(shards):
            self._is_busy[half] = False

    def succeed(self, shards: Collection[int], now: float) -> None:
        """They are over, and all went well."""
        self.end(shards)
        self._ticks.tick(shards, now)

    def expect_more(self, shards: Collection[int]) -> None:
        """There may be more than this look found: look again as soon as its claim is over."""
        for half in _halves(shards):
            self._at[half] = 0.0


def _halves(shards: Collection[int]) -> set[int]:
    return {shard % HALVES for shard in shards}
