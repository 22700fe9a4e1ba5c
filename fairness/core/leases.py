"""Tokens of rates that a node has in hand: a tenant that is far below its rate is not asked for fire by fire.

::

    spend ──> a token of each rate that is in hand ──> it may go
      └─ none, or few are left ──> wanted ──> (limiter) ──> granted

A token in hand was spent in the common bucket when it was leased, so all nodes together never exceed a rate by more
than what they have in hand: ``most_of`` bounds that to four tenths of a second of it. Whose bucket is not at least half
full gets no lease: near its rate, a tenant is asked for fire by fire, in turn with the other nodes. What nobody has
needed for a minute is forgotten, and never given back: the bucket has refilled meanwhile. Pure; times are monotonic
seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fairness.core.terms import Bound, BoundKey

MOST_S = 0.1  # of a rate, in the hands of one node
MOST_OF_BURST = 0.2
NODES = 4  # more of them divide among them what so many may have
MOST = 1000
IDLE_S = 60.0  # after which a token is forgotten
AGAIN_S = 1.0  # after an answer that there is none


@dataclass(frozen=True, slots=True)
class Wanted:
    """Of one rate. ``in_hand``: tokens that the node has."""

    key: BoundKey
    bound: Bound
    in_hand: int


@dataclass(slots=True, eq=False)
class Purse:
    """The tokens of one rate that are in hand."""

    key: BoundKey
    bound: Bound
    left: int = 0
    most: int = 0  # may be in hand, by the last answer
    low: int = 0  # from so few on, more are wanted
    used_at: float = 0.0
    ask_at: float = 0.0
    is_asked: bool = False

    def give_back(self) -> None:
        """What took a token did not go. It is lost where others were leased in its place: of a thousand fires that the
        broker refuses together, all would else be in hand, and go at once.
        """
        self.left = min(self.left + 1, self.most)


@dataclass(slots=True)
class Leases:
    """Of one node. One thread owns it."""

    _purses: dict[BoundKey, Purse] = field(default_factory=dict)
    _wanted: dict[BoundKey, Purse] = field(default_factory=dict)

    def purses(self, bounds: Sequence[tuple[BoundKey, Bound]], *, is_seen: bool) -> tuple[Purse, ...] | None:
        """For ``spend``, until ``keep_only``. None: under some of these limits each fire is to be asked for.

        ``is_seen``: somebody tells when such a fire is over. Else it would give up its place under a cap as soon as it
        is sent, and needs none.
        """
        if not bounds or not all(_is_leased(bound, is_seen=is_seen) for _, bound in bounds):
            return None
        return tuple(self._purses.setdefault(key, Purse(key, bound)) for key, bound in bounds)

    def spend(self, purses: tuple[Purse, ...], most: int, now: float) -> int:
        """For how many fires, at most so many, there is a token of each of these rates; these are spent."""
        count = min(most, *(purse.left if now - purse.used_at <= IDLE_S else 0 for purse in purses))
        if not count:
            self._want(purses, now)
            return 0
        for purse in purses:
            purse.left -= count
            purse.used_at = now
            if purse.left <= purse.low and not purse.is_asked:
                self._want((purse,), now)
        return count

    def keep_only(self, bound_of: Callable[[BoundKey], Bound | None]) -> None:
        """Limits are these now: what was leased under others is forgotten, and ``purses`` are to be asked for anew."""
        for key in [key for key, purse in self._purses.items() if bound_of(key) != purse.bound]:
            del self._purses[key]
            self._wanted.pop(key, None)

    def wanted(self) -> list[Wanted]:
        """What is to be asked for, and answered by ``granted``."""
        wanted = [Wanted(purse.key, purse.bound, purse.left) for purse in self._wanted.values()]
        self._wanted.clear()
        return wanted

    def granted(self, wanted: Sequence[Wanted], tokens: Sequence[int], now: float) -> None:
        """So many more are in hand than there were when they were wanted; of late answers none is added to another."""
        for one, count in zip(wanted, tokens, strict=True):
            purse = self._purses.get(one.key)
            if purse is None or purse.bound != one.bound:
                continue  # the limit is another one by now: these tokens are lost
            purse.is_asked = False
            purse.most = one.in_hand + count
            purse.left = min(purse.left + count, purse.most)
            purse.low = purse.left // 2
            purse.used_at = now
            if not count:
                purse.ask_at = now + AGAIN_S

    def _want(self, purses: tuple[Purse, ...], now: float) -> None:
        for purse in purses:
            if purse.left and now - purse.used_at > IDLE_S:
                purse.left = 0
            if not purse.is_asked and now >= purse.ask_at and purse.left <= purse.low:
                purse.is_asked = True
                self._wanted[purse.key] = purse


def most_of(bound: Bound, nodes: int) -> int:
    """How many tokens of this rate each of so many nodes may have in hand.

    >>> most_of(Bound(rate_per_s=100, burst=50), 1), most_of(Bound(rate_per_s=100, burst=50), 16)
    (10, 2)
    """
    if bound.rate_per_s is None:
        return 0
    of_one = min(bound.rate_per_s * MOST_S, bound.burst * MOST_OF_BURST, MOST)
    return int(of_one * min(1.0, NODES / nodes))


def lendable(bound: Bound, tokens: float, in_hand: int) -> int:
    """How many to lease to the only node out of a bucket with so many tokens: what is beyond half of it, at most. (For
    several nodes that have one bucket, ``lease.lua`` says it.)
    """
    return max(0, min(most_of(bound, 1) - in_hand, int(tokens - bound.burst / 2)))


def _is_leased(bound: Bound, *, is_seen: bool) -> bool:
    """It is a rate alone, and of a width that makes it worth while."""
    has_places = bound.max_in_flight is not None and (is_seen or bound.is_strict or not bound.max_in_flight)
    return not has_places and most_of(bound, 1) > 1
