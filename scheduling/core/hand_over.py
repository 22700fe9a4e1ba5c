"""Shards that are leaving for another node, and when each may go.

::

    ours ── hand_over ──> leaving ── nothing is outstanding, or HAND_OVER_S have passed ──> HandOver: release it
      ▲                      │
      └──── take it again ───┘ it is to stay after all

For a shard that is leaving nothing begins any more: what waits in the wheel, or would be offered to the broker again,
is forgotten at once, and the next owner recovers it under a higher fence. Waited for is what only we can bring to an
end: messages without an outcome, writes without an answer, a watermark that has moved and is not recorded. To wait is
courtesy, so that nothing is published twice; to wait no longer than ``HAND_OVER_S`` is safe, since the next owner's
epoch and fences make what we left behind worthless.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from scheduling.core.marks import Marks
from scheduling.core.outstanding import Outstanding

HAND_OVER_S = 1.0  # a broker that is blocked must not hold a shard


class HandOvers:
    """Times are monotonic seconds. One thread owns it."""

    __slots__ = ("_marks", "_outstanding", "_until")

    def __init__(self, outstanding: Outstanding, marks: Marks) -> None:
        self._outstanding, self._marks = outstanding, marks
        self._until: dict[int, float] = {}  # by shard

    def __bool__(self) -> bool:
        return bool(self._until)

    def __contains__(self, shard: int) -> bool:
        return shard in self._until

    @property
    def shards(self) -> frozenset[int]:
        """Those that are leaving."""
        return frozenset(self._until)

    def begin(self, shards: frozenset[int], now: float) -> frozenset[int]:
        """These leave, if they do not already; gives those for which this is new."""
        new = shards.difference(self._until)
        self._until |= dict.fromkeys(new, now + HAND_OVER_S)
        return new

    def drop(self, shards: Collection[int]) -> None:
        """These are gone, or stay after all."""
        for shard in shards:
            self._until.pop(shard, None)

    def next_at(self) -> float:
        """When the next one may go; ``inf`` if none is leaving."""
        return min((at for _, at in self._go_at()), default=inf)

    def over(self, now: float) -> frozenset[int]:
        """Those that may go now."""
        return frozenset(shard for shard, at in self._go_at() if at <= now)

    def _go_at(self) -> list[tuple[int, float]]:
        if not self._until:
            return []
        waits = self._outstanding.shards | self._marks.unrecorded
        return [(shard, until if shard in waits else 0.0) for shard, until in self._until.items()]
