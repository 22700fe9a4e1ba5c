"""The confirm watermark of one shard under one epoch: how far *everything* is settled.

A fire claimed under epoch e gets the next number n = 1, 2, …; it is settled when its message is confirmed, or its row
has left ``claimed``. Confirms come far out of order (over many quorum queues nearly all do), so the highest settled
number proves nothing. The mark is the highest number up to which all are settled::

    numbers   1  2  3  4  5  6  7
    settled   x  x  x     x  x           mark 3: 4 is outstanding; 5 and 6 wait behind it
    settled   x  x  x  x  x  x           mark 6

What is stored ``claimed`` at or below the mark is published; what lies beyond it may or may not be. One row for each
shard records it, instead of a write for each fire.

Invariants: the mark never goes back, never passes an outstanding number, and a number without a row (one that was
skipped by ``reserve``) counts as settled. Memory is one entry for each outstanding number; time is constant for each
number. It writes nothing, and one thread owns it. A new epoch gets a new watermark.
"""

from __future__ import annotations

from scheduling.core.errors import InvalidField


class Watermark:
    """Numbers of one epoch: given out, then settled in any order."""

    __slots__ = ("_highest", "_mark", "_outstanding", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._highest = 0
        self._mark = 0
        self._outstanding: set[int] = set()

    @property
    def mark(self) -> int:
        """The highest number up to which all are settled; 0 before the first."""
        return self._mark

    def allocate(self) -> int:
        """The next number, outstanding from now on."""
        self._highest += 1
        self._outstanding.add(self._highest)
        return self._highest

    def reserve(self, n: int) -> None:
        """Take over a number that recovery gave to a row, in any order; those left out have no row.

        Raises InvalidField if the mark has passed it.
        """
        if n <= self._mark:
            raise InvalidField("n", n, f"the mark of epoch {self.epoch} stands at {self._mark} already")
        self._highest = max(self._highest, n)
        self._outstanding.add(n)

    def done(self, n: int) -> None:
        """Number ``n`` is settled; once more changes nothing. Raises InvalidField for one that was never given out."""
        if not 1 <= n <= self._highest:
            raise InvalidField("n", n, f"epoch {self.epoch} has given out 1 to {self._highest}")
        self._outstanding.discard(n)
        while self._mark < self._highest and self._mark + 1 not in self._outstanding:
            self._mark += 1
