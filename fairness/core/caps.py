"""How many may be in flight at once: a set of leased members, which heals, where a counter would leak.

Whoever forgets to leave (a process that was killed) is dropped when its lease ends. Entering and leaving twice is
entering and leaving once. The limit may fall below what is in flight: then nobody enters until enough have left; nobody
is thrown out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import inf


class Cap:
    """A gate that at most ``limit`` members are behind, each for ``lease_s`` seconds unless it renews.

    Raises ValueError for a limit below 0, or a lease that is not above 0.
    """

    __slots__ = ("_ends_from", "_lease_s", "_leases", "_limit", "reason")

    def __init__(self, limit: int, *, lease_s: float, reason: str = "cap") -> None:
        if not lease_s > 0:
            raise ValueError(f"lease_s {lease_s!r}: must be above 0")
        self._leases: dict[Hashable, float] = {}  # until when; all are as long, so the first ends first
        self._ends_from = -inf  # no lease ends before
        self.limit = limit
        self._lease_s = lease_s
        self.reason = reason

    def __len__(self) -> int:
        """In flight, those included whose lease has ended and who were not dropped yet."""
        return len(self._leases)

    def __contains__(self, member: Hashable) -> bool:
        return member in self._leases

    @property
    def limit(self) -> int:
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        if not limit >= 0:
            raise ValueError(f"limit {limit!r}: must be at least 0")
        self._limit = limit

    def opens_at(self, now: float) -> float:
        """``now`` if there is room; else when the next lease ends, or a time before that at which to ask again."""
        if len(self._leases) < self._limit:
            return now
        self.drop_ended(now)
        if len(self._leases) < self._limit:
            return now
        return self._ends_from if self._leases else inf

    def enter(self, member: Hashable, now: float) -> None:
        """Without asking whether there is room; ``admit`` asks."""
        ends_at = now + self._lease_s
        if self._leases.setdefault(member, ends_at) is not ends_at:  # it was in: now it is the last
            del self._leases[member]
            self._leases[member] = ends_at

    def admit(self, member: Hashable, now: float) -> bool:
        """Let ``member`` in if there is room, or if it is in already: its lease then begins anew."""
        if member not in self._leases and self.opens_at(now) > now:
            return False
        self.enter(member, now)
        return True

    def renew(self, members: Iterable[Hashable], now: float) -> None:
        """The leases of those who are still in begin anew; nobody else is let in."""
        for member in members:
            if member in self._leases:
                self.enter(member, now)

    def leave(self, member: Hashable) -> bool:
        self._leases.pop(member, None)
        return True

    def undo(self, member: Hashable) -> None:
        self.leave(member)

    def drop_ended(self, now: float) -> list[Hashable]:
        """Let go of those whose lease has ended; returns them."""
        ended: list[Hashable] = []
        if now < self._ends_from:
            return ended
        self._ends_from = -inf
        for member, ends_at in self._leases.items():
            if ends_at > now:
                self._ends_from = ends_at
                break
            ended.append(member)
        for member in ended:
            del self._leases[member]
        return ended
