"""How many in a second, with a burst: the generic cell rate algorithm (GCRA).

One number is all the state: the *theoretical arrival time*, at which the bucket will be full again. Each admission
moves it on by one interval (``1 / per_s``); it may lie at most ``burst`` intervals ahead. So in any span of t seconds
at most ``burst + per_s × t`` are admitted, and a refusal knows to the instant when it will be over.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import inf

SLOWEST_PER_S, FASTEST_PER_S = 1e-9, 1e9
ROUNDING = 1e-6  # of a token: what sums of intervals may lose, so that a full burst is one


class Rate:
    """A gate that admits ``per_s`` a second, and ``burst`` at once after a rest. It begins full.

    Raises ValueError for a rate out of bounds, or a burst below 1.
    """

    __slots__ = ("_full_at", "_interval_s", "_tolerance_s", "burst", "reason")

    def __init__(self, per_s: float, burst: int = 1, *, reason: str = "rate") -> None:
        self._full_at = -inf
        self._set(per_s, burst)
        self.reason = reason

    @property
    def per_s(self) -> float:
        return 1.0 / self._interval_s

    @property
    def refill_s(self) -> float:
        """From an empty bucket to a full one: the span within which a burst can matter."""
        return self.burst * self._interval_s

    def change(self, per_s: float, burst: int, now: float) -> None:
        """Another rate from ``now`` on. What was spent stays spent; a bucket is at worst empty."""
        spent = self.burst - self.tokens(now)
        self._set(per_s, burst)
        self._full_at = now + min(spent, float(burst)) * self._interval_s

    def empty(self, now: float) -> None:
        """As if everything had just been spent: for a state that was lost, so that no second burst goes out."""
        self._full_at = now + self.refill_s

    def tokens(self, now: float) -> float:
        """How many could go at once; a part of a token counts."""
        return self.burst - max(0.0, self._full_at - now) / self._interval_s

    def opens_at(self, _now: float) -> float:
        """When the next token is there; at or before now if one is."""
        return self._full_at - self._tolerance_s

    def take(self, now: float, wanted: int) -> int:
        """Spend up to ``wanted`` tokens; returns how many there were."""
        found = max(0, min(wanted, int(self.tokens(now))))
        self._full_at = max(self._full_at, now) + found * self._interval_s
        while found < wanted and self.opens_at(now) <= now:  # the last part of a token was lost in rounding
            self.enter(None, now)
            found += 1
        return found

    def enter(self, _member: Hashable, now: float) -> None:
        self._full_at = (now if now > self._full_at else self._full_at) + self._interval_s

    def leave(self, _member: Hashable) -> bool:
        """Nothing happens: what is spent does not come back by finishing."""
        return False

    def undo(self, _member: Hashable) -> None:
        """Its token comes back. One that comes late may go out on top of a burst; in all there is never one more."""
        self._full_at -= self._interval_s

    def _set(self, per_s: float, burst: int) -> None:
        if not SLOWEST_PER_S <= per_s <= FASTEST_PER_S:
            raise ValueError(f"per_s {per_s!r}: must be from {SLOWEST_PER_S:g} to {FASTEST_PER_S:g}")
        if not burst >= 1:
            raise ValueError(f"burst {burst!r}: must be at least 1")
        self.burst = burst
        self._interval_s = 1.0 / per_s
        self._tolerance_s = (burst - 1 + ROUNDING) * self._interval_s
