"""What an engine has asked the world for and has no answer to yet.

Fires are kept by their number: the same fire may be claimed again while an earlier number of it still waits for its
confirm.
"""

from __future__ import annotations

from collections.abc import Collection

from scheduling.core.effects import Epochs
from scheduling.core.fire import Fire
from scheduling.core.marks import Number


class Outstanding:
    """One thread owns it."""

    __slots__ = ("counting", "in_flight", "numbering", "settling")

    def __init__(self) -> None:
        self.in_flight: dict[Number, Fire] = {}  # published, without an outcome
        self.counting: dict[Number, Fire] = {}  # wait for the count of their predecessors
        self.settling: dict[Number, Fire] = {}
        self.numbering: list[Epochs] = []  # of claims and releases

    @property
    def retries(self) -> int:
        """How many of those in flight have begun before."""
        return sum(1 for fire in self.in_flight.values() if fire.attempt)

    @property
    def shards(self) -> set[int]:
        """Those of which a message, or a write, is under way. (A count of predecessors is neither.)"""
        shards = {number[0] for fires in (self.in_flight, self.settling) for number in fires}
        return shards.union(*self.numbering)

    def drop(self, shards: Collection[int]) -> None:
        """These are no longer ours: an answer that comes for a fire of theirs finds nothing."""
        for fires in (self.in_flight, self.counting, self.settling):
            _drop(fires, shards)

    def drop_counts(self, shards: Collection[int]) -> None:
        """Whoever owns these next counts again."""
        _drop(self.counting, shards)


def _drop(fires: dict[Number, Fire], shards: Collection[int]) -> None:
    for number in [number for number in fires if number[0] in shards]:
        del fires[number]
